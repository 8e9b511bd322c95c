"""The dashboard: learn how ZeRO works, explore a run, compare two. Start it with `zerosim dashboard`."""

"""The lab: a few nodes on one machine, in network namespaces whose links have the bandwidth you say."""

// What a drop or a choice holds: its files, those of folders too, each called by its place in them.

export const MAX_FILES = 4096;
const MAX_FOLDERS = 8;

/** [{name, file}] of what was dropped. Has to be called while the event is told. */
export async function dropped(transfer) {
  const entries = [...(transfer.items ?? [])].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return chosen(transfer.files);
  const found = [];
  for (const entry of entries) await collect(entry, found, 0);
  return found;
}

/** [{name, file}] of what was chosen. */
export function chosen(files) {
  return [...files].map((file) => ({ name: file.webkitRelativePath || file.name, file }));
}

async function collect(entry, found, depth) {
  if (entry.isFile) {
    // A hidden file that was dropped by itself was meant.
    if (depth && entry.name.startsWith(".")) return;
    if (found.length >= MAX_FILES)
      throw new Error(`over ${MAX_FILES} files: drop those of one run`);
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    found.push({ name: entry.fullPath.replace(/^\/+/, ""), file });
  } else if (depth <= MAX_FOLDERS && !entry.name.startsWith(".")) {
    for (const inner of await listed(entry.createReader())) await collect(inner, found, depth + 1);
  }
}

// A folder tells its entries some at a time, and none when it has told all.
async function listed(reader) {
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return all.sort((a, b) => (a.name < b.name ? -1 : 1));
    all.push(...some);
  }
}

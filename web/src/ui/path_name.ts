// Owns the display of a name that begins with a path: the folder is shortened first, the file last.
import { shortenPath } from "../core/format";
import { make } from "./dom";

const kPathLetters = 54;
const kPathLettersNarrow = 29;

let isNarrow = innerWidth < 800; // cached: reading innerWidth while rows are built would force a layout each time
addEventListener("resize", () => {
  isNarrow = innerWidth < 800;
});

// If space is short the folder is cut; file and line stay.
export function makePathName(name: string, path: string): HTMLElement {
  if (path === "") return make("span", "name", make("span", "folder", name));
  const short = shortenPath(path, isNarrow ? kPathLettersNarrow : kPathLetters);
  const file = short.lastIndexOf("/") + 1;
  return make(
    "span",
    "name",
    make("span", "folder", short.slice(0, file)),
    make("span", "file", short.slice(file) + name.slice(path.length)),
  );
}

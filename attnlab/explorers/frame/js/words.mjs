// Sentences: Python sends them as templates, numbers are filled in here.

/** A template with its {names} replaced. */
export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** Words as a list of a sentence: with commas, and "and" before the last. */
export function listed(words) {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0];
}

"use strict";
// In front of the theme's search worker, whose sort docs.generator.search_order gives edgedlaOrder as the first comparison.
// The theme orders pages by where the words stand in them. Here a page whose name is typed comes first, then the pages that
// people wrote, then commands and lists, and last the many short pages of the reference. The theme finds what holds every word;
// the words that a question consists of besides its matter are left out.
self.edgedlaOrder = (() => {
  // The script of the page's hidden frame (iframe-worker.js), or the worker itself.
  const site = new URL("../../../", self.document?.currentScript?.src ?? self.location.href).href;
  const idle = new Set(
    `a an and any are be been can could did do does for get had has have how i in is it its many may me mean much my of on our per
    should than that the their there these they this to was we were what when which who why will with would you your`.split(/\s+/),
  );
  let ranks = [];
  let names = [];
  let typed = "";
  self.addEventListener("message", ({ data: { type, data } }) => {
    if (type === 0) {
      const paths = data.items.map(({ location }) => location.replace(site, ""));
      ranks = paths.map((path) => LATER.filter((pattern) => pattern.test(path)).length);
      names = paths.map((path) => path.replace(/^.*\//, "").replace(/\.html$/, "").toLowerCase());
    } else if (type === 2 && typeof data.input === "string") {
      const words = data.input.trim().split(/[\s?]+/);
      const told = words.filter((word) => word && !idle.has(word.toLowerCase().replace(/[,.!]+$/, "")));
      if (told.length > 0) data.input = told.join(" ");
      typed = told.join("-").toLowerCase().replace(/^edgedla-/, "");
    }
  });
  // "orin nano" names orin-nano-8gb too; one word is no name but in full.
  const named = (name) => name === typed || (typed.includes("-") && name.startsWith(`${typed}-`));
  const place = ({ id }) => (named(names[id]) ? -1 : ranks[id]);
  return (one, other) => place(one) - place(other);
})();

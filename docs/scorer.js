// Search: guides come first, reference pages next.
var Scorer = {
  score: ([page, , , , score]) => score + (page.startsWith("howto/") ? 20 : page.startsWith("tutorial/") ? 10 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

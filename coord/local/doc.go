// Package local implements the ports of package coord inside one process: a cluster of
// one node, or of several engines that share memory. It is a complete implementation:
// leadership is handed over, limits are shared, members come and go and watches are called
// as on a cluster of machines, only faster and without loss. It passes the suites of coordtest.
//
// Its promises beyond the ports:
//
//  1. A role has at most one leader at any time. Callers of Lead lead in the order of their calls.
//  2. Nothing waits: an order of permits is applied when Order returns, and a grant is exact at any moment.
//  3. A hint reaches every subscriber exactly once and in the order it was published,
//     unless a subscriber lags behind by more than [Backlog] hints: then the newest are
//     dropped and counted (see [Node.Dropped]).
package local

package cli

import "github.com/spf13/cobra"

func newBench(a *app) *cobra.Command {
	return group("bench", "Measure this machine with this engine on it", newBenchRun(a), newBenchList(a), newBenchLimits(a), newBenchReport(a), newBenchCompare(a), newBenchPlugin(a), newBenchNode(a))
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/bench"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func newBenchList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list [SCENARIO]",
		Short: "List the scenarios of the benchmark, or write one to be copied",
		Long: `List the scenarios that ` + "`taskengine bench run`" + ` knows by name, or write the text of one:

  taskengine bench list noop > mine.yaml
  taskengine bench run ./mine.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				text, err := bench.Source(args[0])
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				_, err = a.stdout.Write(text)
				return err
			}
			return a.showScenarios()
		},
	}
}

// scenarioJSON is a scenario of `bench list -o json`.
type scenarioJSON struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
}

func (a *app) showScenarios() error {
	var rows [][]string
	for _, name := range bench.Builtin() {
		s, err := bench.LoadScenario(name)
		if err != nil {
			return err
		}
		if a.json() {
			if err := a.printJSON(scenarioJSON{s.Name, s.Purpose}); err != nil {
				return err
			}
		}
		rows = append(rows, []string{s.Name, s.Purpose})
	}
	if a.json() {
		return nil
	}
	return a.printTable([]string{"SCENARIO", "QUESTION"}, rows)
}

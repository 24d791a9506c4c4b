package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newAlertTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test [TARGET...]",
		Short: "Send a test to targets of alerts, and say whether they accepted it",
		Long: `Send a notification that says that it is a test to targets of the node's configuration, or to
all of them, and say whether they accepted it. It is tried once.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.TestAlerts, &taskenginev1.TestAlertsRequest{Targets: args})
				if err != nil {
					return err
				}
				return a.showTests(res.GetTests())
			})
		},
	}
}

// showTests writes the outcomes of tests. It returns an error if a target did not accept.
func (a *app) showTests(tests []*taskenginev1.AlertTest) error {
	failed := 0
	rows := make([][]string, len(tests))
	for i, t := range tests {
		took := t.GetTook().AsDuration().Round(time.Millisecond)
		said := "accepted"
		if t.GetProblem() != "" {
			said = t.GetProblem()
			failed++
		}
		rows[i] = []string{t.GetTarget(), took.String(), said}
		if a.json() {
			o := messageJSON(t)
			o.set("accepted", t.GetProblem() == "")
			if err := a.printJSON(o); err != nil {
				return err
			}
		}
	}
	if !a.json() {
		if err := a.printTable([]string{"TARGET", "TOOK", "OUTCOME"}, rows); err != nil {
			return err
		}
	}
	if failed > 0 {
		return exit.Errorf(exit.Failure, "%d of %d targets did not accept the test", failed, len(tests))
	}
	return nil
}

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/plugins/conform"
)

func newHandlerVerify(a *app) *cobra.Command {
	var f programFlags
	patience := duration(10 * time.Second)
	remote := false
	cmd := &cobra.Command{
		Use:   "verify [flags] -- COMMAND [ARGUMENT...]",
		Short: "Say whether a handler program keeps to the protocol",
		Long: `Start a handler program, act as its node, and check each rule of the protocol. No node is
needed.

Name a task that does no harm, however often it is run: without one, checks that need a task
are skipped. It is also run with five million spaces behind its payload.

  taskengine handler verify --type mail --payload '{"to": "nobody@example.com"}' -- ./mailer

With --remote the program is examined as a worker: it is started with TASKENGINE_ADDRESS and
TASKENGINE_TOKEN in its environment, and has to connect. Connections break, the node forgets
it, falls silent, refuses it and drains it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.payload != "" && f.typ == "" {
				return exit.Errorf(exit.Usage, "--payload needs a --type: that of the harmless task")
			}
			env, err := f.environ()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			report, err := conform.Run(ctx, conform.Options{
				Command: args, Env: env, Type: f.typ, Payload: []byte(f.payload), Patience: time.Duration(patience), Remote: remote,
			})
			if err != nil {
				return err
			}
			return a.showReport(&f, &report)
		},
	}
	f.add(cmd, "the type of a harmless task", "its payload")
	cmd.Flags().BoolVar(&remote, "remote", false, "examine the program as a worker, which connects to a node")
	cmd.Flags().Var(&patience, "patience", "how long to wait for each expected action of the program, such as its start")
	return cmd
}

// checkJSON is a line of -o json, described in docs/cli.md.
type checkJSON struct {
	Name        string          `json:"name"`
	Outcome     conform.Outcome `json:"outcome"`
	Remark      string          `json:"remark,omitempty"`
	Requirement string          `json:"requirement,omitempty"`
}

// showReport shows the checks, and ends in an error if one has failed.
func (a *app) showReport(f *programFlags, r *conform.Report) error {
	if a.json() {
		for _, c := range r.Checks {
			if err := a.printJSON(checkJSON{c.Name, c.Outcome, c.Seen, c.Asked}); err != nil {
				return err
			}
		}
	} else if err := a.tellReport(r); err != nil {
		return err
	}
	passed, failed, skipped := r.Count(conform.Passed), r.Count(conform.Failed), r.Count(conform.Skipped)
	if failed > 0 {
		return exit.Errorf(exit.Failure, "%d of %d checks failed", failed, passed+failed)
	}
	if f.typ == "" && skipped > 0 {
		a.note("%d checks passed and %d were skipped, since no task is named: whether it does its work is not examined; name a harmless task by --type and --payload", passed, skipped)
		return nil
	}
	a.note("all %d checks passed; %d were skipped", passed, skipped)
	return nil
}

func (a *app) tellReport(r *conform.Report) error {
	rows := make([][]string, len(r.Checks))
	for i, c := range r.Checks {
		rows[i] = []string{string(c.Outcome), c.Name, ""}
		if c.Outcome != conform.Failed {
			rows[i][2] = c.Seen
		}
	}
	if err := a.printTable([]string{"OUTCOME", "CHECK", "REMARK"}, rows); err != nil {
		return err
	}
	for _, c := range r.Checks {
		if c.Outcome != conform.Failed {
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "\nfailed: %s\n  remark:      %s\n  requirement: %s\n", c.Name, clean(c.Seen), clean(c.Asked)); err != nil {
			return err
		}
	}
	return nil
}

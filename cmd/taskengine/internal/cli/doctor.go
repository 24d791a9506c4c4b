package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/doctor"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
)

func newDoctor(a *app) *cobra.Command {
	var schema string
	var options doctor.Options
	cmd := &cobra.Command{
		Use:   "doctor STORE",
		Short: "Examine a store and explain its problems",
		Long: `Examine a store and print its problems, their consequences and remedies. Nothing is changed.
The exit code is 1 if there is a finding of the severity error.

` + locationHelp + `

A store in files must not be in use, and is read as a whole: every index is checked against the
tasks. If that takes long, the progress is on the standard error. If a node must not stop, examine a backup of its store. PostgreSQL is examined while
nodes use it: the tasks that have not ended are read once, and beyond that its own statistics.
Let the role be a member of pg_read_all_stats, so that it sees the sessions of others.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.locate(args[0], schema)
			if err != nil {
				return err
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error {
				options.Progress = a.notesOf(time.Now, "taskengine doctor: tasks that were read")
				found, err := doctor.Examine(ctx, p, options, a.warnings())
				if err != nil {
					return database.OneLine(err)
				}
				return a.showFindings(p, found)
			})
		},
	}
	cmd.Flags().BoolVar(&options.Keys, "keys", false, "say which keys of encoding are in use: all tasks are read")
	cmd.Flags().StringVar(&schema, "schema", "", "the schema, if the store is in PostgreSQL")
	return cmd
}

// progressEvery is how long a command is silent at first, and between two lines about its progress.
const progressEvery = 5 * time.Second

// notesOf returns a function that notes how many of a total were done, at most once in a while.
func (a *app) notesOf(now func() time.Time, doing string) func(done, total int64) {
	last := now()
	return func(done, total int64) {
		at := now()
		if at.Sub(last) < progressEvery {
			return
		}
		last = at
		if total > 0 {
			a.note("%s: %d of %d (%d%%)", doing, done, total, min(100, 100*done/total))
		} else {
			a.note("%s: %d", doing, done)
		}
	}
}

// showFindings shows findings, the worst first. It returns an error if one of them is an error.
func (a *app) showFindings(p stores.Location, found doctor.Findings) error {
	order := []doctor.Severity{doctor.Error, doctor.Warning, doctor.Info}
	slices.SortStableFunc(found, func(a, b doctor.Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	count := make(map[doctor.Severity]int)
	for _, f := range found {
		count[f.Severity]++
		if err := a.showFinding(f); err != nil {
			return err
		}
	}
	if n := count[doctor.Error]; n > 0 {
		return exit.Errorf(exit.Failure, "%s is not well: errors %d, warnings %d", p.Name, n, count[doctor.Warning])
	}
	a.note("%s: no errors, warnings %d", p.Name, count[doctor.Warning])
	return nil
}

func (a *app) showFinding(f doctor.Finding) error {
	if a.json() {
		return a.printJSON(f)
	}
	text := fmt.Sprintf("%-7s  %s: %s\n", f.Severity, f.Check, clean(f.What))
	for _, more := range []string{f.Why, f.Do} {
		if more != "" {
			text += "         " + clean(more) + "\n"
		}
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}

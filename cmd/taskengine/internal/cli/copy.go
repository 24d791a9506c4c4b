package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/storecopy"
	"github.com/taskengine/taskengine/storage/transfer"
)

func newCopy(a *app) *cobra.Command {
	var c storecopy.Copy
	var from, to, fromSchema, toSchema string
	var salvage bool
	cmd := &cobra.Command{
		Use:   "copy --from STORE --to STORE",
		Short: "Copy all tasks from one store to another, of any kind",
		Long: `Copy the contents of one store to another one: all tasks, including ended ones, with payload,
result, checkpoint and history, in the order of their submission, and the settings. At the end
the destination is read again and every task compared.

` + locationHelp + `

No node may use the destination, nor a source in files; of a source in PostgreSQL that is in
use, the contents at the beginning are copied. If the copy is interrupted, run it again: it
goes on. Until it is complete no node starts on the destination. A destination with other tasks
is refused without --merge.

A store of pebble with a damaged log is refused. With --salvage the source is copied as it was
before the first unreadable change: later tasks are missing, and tasks that have ended later
run again. If there is a newer backup, restore that instead.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.From, err = a.locate(from, fromSchema); err != nil {
				return err
			}
			if c.To, err = a.locate(to, toSchema); err != nil {
				return err
			}
			c.From.Salvage = salvage
			if c.From.Name == c.To.Name {
				return exit.Errorf(exit.Usage, "the source and the destination are the same: %s", c.From.Name)
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error { return a.copy(ctx, &c) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the store to copy")
	flags.StringVar(&to, "to", "", "the store to copy it to")
	flags.StringVar(&fromSchema, "from-schema", "", "the schema of the source, if it is in PostgreSQL")
	flags.StringVar(&toSchema, "to-schema", "", "the schema of the destination, likewise")
	flags.BoolVar(&c.Merge, "merge", false, "add to the tasks that the destination has; where both have one, keep its own")
	flags.BoolVar(&salvage, "salvage", false, "copy the contents of a store of pebble with a damaged log up to the damage")
	for _, needed := range []string{"from", "to"} {
		if err := cmd.MarkFlagRequired(needed); err != nil {
			panic(err) // there is such a flag
		}
	}
	return cmd
}

func (a *app) copy(ctx context.Context, c *storecopy.Copy) error {
	c.Log = a.warnings()
	c.Warn = func(warning string) { a.note("warning: %s", warning) }
	if a.errTTY {
		c.Progress = &copyBar{app: a}
	}
	report, err := c.Run(ctx)
	if report == nil {
		return err
	}
	return errors.Join(a.showCopy(c, report), err)
}

// copyBar shows the progress of a copy on a terminal.
type copyBar struct {
	app       *app
	bar       *progressbar.ProgressBar
	verifying bool
}

var _ storecopy.Progress = (*copyBar)(nil)

func (b *copyBar) Begin(rows int64) {
	b.bar = progressbar.NewOptions64(rows,
		progressbar.OptionSetWriter(b.app.stderr), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("tasks"), progressbar.OptionSetDescription("copying"), progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(false))
}

func (b *copyBar) Show(verifying bool, rows int64) {
	if verifying && !b.verifying {
		b.verifying = true
		b.bar.Reset()
		b.bar.Describe("verifying")
	}
	if most := b.bar.GetMax64(); most > 0 {
		rows = min(rows, most) // rows may have been added since they were counted
	}
	_ = b.bar.Set64(rows) // only a terminal that is gone fails
}

func (b *copyBar) End() { _ = b.bar.Finish() }

// copyJSON is the line of -o json, described in docs/cli.md.
type copyJSON struct {
	From           string           `json:"from"`
	To             string           `json:"to"`
	Tasks          int64            `json:"tasks"`
	Added          int64            `json:"added"`
	Settings       int              `json:"settings"`
	Counts         []countJSON      `json:"counts"`
	Checksum       string           `json:"checksum"`
	TargetChecksum string           `json:"target_checksum"`
	Complete       bool             `json:"complete"`
	Differences    []copyDifference `json:"differences"`
	More           int64            `json:"more_differences,omitempty"`
}

type copyDifference struct {
	Kind   transfer.Kind `json:"kind"`
	ID     string        `json:"id,omitempty"`
	Detail string        `json:"detail,omitempty"`
}

// showCopy shows the report of a copy. It returns an error unless the destination is a copy.
func (a *app) showCopy(c *storecopy.Copy, r *transfer.Report) error {
	if err := a.printCopy(c, r); err != nil {
		return err
	}
	differing := int64(len(r.Differences)) + r.More
	switch {
	case !r.Complete:
		return exit.Errorf(exit.Failure, "the copy is not complete, in %d places; run the same command again, and if that does not mend it, "+
			"empty the destination and begin again", differing)
	case differing > 0:
		return exit.Errorf(exit.Failure, "%d tasks and settings were not copied: the destination has others in their place", differing)
	case r.Nothing:
		a.note("there was nothing to do: the destination has these tasks, and no others")
	}
	return nil
}

func (a *app) printCopy(c *storecopy.Copy, r *transfer.Report) error {
	j := copyJSON{
		From: c.From.Name, To: c.To.Name, Tasks: r.Rows, Added: r.Added, Settings: r.Settings, Checksum: r.Source.String(),
		TargetChecksum: r.Target.String(), Complete: r.Complete, More: r.More, Counts: []countJSON{}, Differences: []copyDifference{},
	}
	var rows [][]string
	for st, n := range r.Counts {
		j.Counts = append(j.Counts, countJSON{Type: st.Type, State: st.State.String(), Count: n})
	}
	slices.SortFunc(j.Counts, func(a, b countJSON) int {
		return strings.Compare(a.Type+"\x00"+a.State, b.Type+"\x00"+b.State)
	})
	for _, n := range j.Counts {
		rows = append(rows, []string{n.Type, n.State, fmt.Sprint(n.Count)})
	}
	for _, d := range r.Differences {
		difference := copyDifference{Kind: d.Kind, Detail: d.Detail}
		if !d.ID.IsZero() {
			difference.ID = d.ID.String()
		}
		j.Differences = append(j.Differences, difference)
		a.note("%s", clean(d.String()))
	}
	if r.More > 0 {
		a.note("and %d more", r.More)
	}
	if a.json() {
		return a.printJSON(j)
	}
	if err := a.printTable([]string{"TYPE", "STATE", "COUNT"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%d tasks and %d settings of the source, %d tasks added\nchecksum of the source       %v\nchecksum of the destination  %v\n",
		r.Rows, r.Settings, r.Added, r.Source, r.Target)
	return err
}

type countJSON struct {
	Type  string `json:"type"`
	State string `json:"state"`
	Count int64  `json:"count"`
}

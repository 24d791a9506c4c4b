package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/storage/transfer"
)

func newCopy(a *app) *cobra.Command {
	var c copying
	var fromSchema, toSchema string
	cmd := &cobra.Command{
		Use:   "copy --from STORE --to STORE",
		Short: "Copy all tasks from one store to another, of any kind",
		Long: `Copy everything that one store keeps to another one: all tasks, those that have ended
too, with payload, result, checkpoint and history, in the order in which they were added,
and the settings. At the end the destination is read again and every task compared.

` + placeHelp + `

No node may use the destination, nor a source in files; of a source in PostgreSQL that is
in use, what it had at the beginning is copied. Whenever the copy is interrupted, run it
again: it goes on. Until it is complete no node starts on the destination. One that has
other tasks is refused without --merge.

A store of pebble whose log is damaged is refused. With --salvage the source is taken as it
was before the first change that cannot be read: later tasks are missing, and what has ended
later runs again. Restore a backup rather than that, if there is a newer one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.from, err = a.placeOf(c.from.name, fromSchema); err != nil {
				return err
			}
			if c.to, err = a.placeOf(c.to.name, toSchema); err != nil {
				return err
			}
			c.from.salvage = c.salvage
			if c.from.name == c.to.name {
				return exit(exitUsage, "the source and the destination are the same: %s", c.from.name)
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error { return a.copy(ctx, &c) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.from.name, "from", "", "the store to copy")
	flags.StringVar(&c.to.name, "to", "", "the store to copy it to")
	flags.StringVar(&fromSchema, "from-schema", "", "the schema of the source, if it is in PostgreSQL")
	flags.StringVar(&toSchema, "to-schema", "", "the schema of the destination, likewise")
	flags.BoolVar(&c.merge, "merge", false, "add to the tasks that the destination has; where both have one, keep its own")
	flags.BoolVar(&c.salvage, "salvage", false, "of a store of pebble whose log is damaged, take over what is before the damage")
	for _, needed := range []string{"from", "to"} {
		if err := cmd.MarkFlagRequired(needed); err != nil {
			panic(err) // there is such a flag
		}
	}
	return cmd
}

// copying is what is to be copied.
type copying struct {
	from, to place
	merge    bool
	salvage  bool // the source may be damaged
}

// untilSignalled runs fn, whose context ends when a signal comes, and says what came of it.
func untilSignalled(ctx context.Context, fn func(context.Context) error) error {
	signals := listenToSignals(ctx, nil)
	defer signals.close()
	err := fn(signals.first)
	if n := signals.number(); err != nil && n != 0 {
		return exit(exitSignal+n, "interrupted: run the same command again")
	}
	return err
}

func (a *app) copy(ctx context.Context, c *copying) (err error) {
	log := a.newLog(config.Log{Level: slog.LevelWarn})
	if c.from.driver != config.Postgres {
		if err := refuseDamagedBackup(ctx, c.from.path); err != nil {
			return fmt.Errorf("the source: %w", err)
		}
	}
	from, err := c.from.look(ctx, log)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := c.to.open(ctx, log)
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := a.lookForNodes(ctx, from, to); err != nil {
		return err
	}
	total, err := a.rowsOf(ctx, from)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	bar := a.copyBar(total)
	report, err := transfer.Copy(ctx, from, to, transfer.Options{From: c.from.name, Merge: c.merge, Progress: bar.show})
	bar.finish()
	switch {
	case errors.Is(err, transfer.ErrNotEmpty):
		return fmt.Errorf("%w than those of %s, such as: %s; empty it, choose another one, or add to them by --merge",
			err, c.from.name, firstDifference(report.Differences))
	case err != nil:
		return oneLine(err)
	}
	return a.showCopy(c, report)
}

// lookForNodes refuses a destination that nodes use, and warns of a source.
func (a *app) lookForNodes(ctx context.Context, from, to placed) error {
	names, err := aliveOn(ctx, to)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("nodes use the destination: %s; stop them first, they would run the tasks that come", strings.Join(names, ", "))
	}
	if err != nil {
		return err
	}
	if names, err = aliveOn(ctx, from); len(names) > 0 {
		a.note("warning: nodes use the source: %s; what they do from now on is not copied, and what is copied they may run again",
			strings.Join(names, ", "))
	}
	return err
}

// aliveOn returns the names of the nodes that use a store that several can use.
func aliveOn(ctx context.Context, s storage.Store) (names []string, err error) {
	shared, ok := s.(*postgres.Store)
	if !ok {
		return nil, nil // it is locked
	}
	nodes, err := health.Nodes(ctx, shared)
	for _, n := range nodes {
		if n.DiedAt.IsZero() {
			names = append(names, n.Name)
		}
	}
	return names, err
}

// rowsOf counts the rows of a store if somebody looks, else it returns -1.
func (a *app) rowsOf(ctx context.Context, s storage.Inspector) (n int64, err error) {
	if !a.errTTY {
		return -1, nil
	}
	counts, err := s.Count(ctx, storage.Filter{})
	for _, rows := range counts {
		n += rows
	}
	return n, err
}

// copyBar shows how far a copy is: first how much is copied, then how much is verified.
type copyBar struct {
	bar       *progressbar.ProgressBar
	verifying bool
}

func (a *app) copyBar(total int64) *copyBar {
	return &copyBar{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(a.errTTY), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("tasks"), progressbar.OptionSetDescription("copying"), progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(false))}
}

func (b *copyBar) show(verifying bool, rows int64) {
	if verifying && !b.verifying {
		b.verifying = true
		b.bar.Reset()
		b.bar.Describe("verifying")
	}
	if most := b.bar.GetMax64(); most > 0 {
		rows = min(rows, most) // some may have come meanwhile
	}
	_ = b.bar.Set64(rows) // only a terminal that is gone fails
}

func (b *copyBar) finish() { _ = b.bar.Finish() }

func firstDifference(ds []transfer.Difference) string {
	if len(ds) == 0 {
		return "none"
	}
	return ds[0].String()
}

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

// showCopy shows what came of a copy. Its error says whether it is complete.
func (a *app) showCopy(c *copying, r *transfer.Report) error {
	if err := a.printCopy(c, r); err != nil {
		return err
	}
	told := int64(len(r.Differences)) + r.More
	switch {
	case !r.Complete:
		return exit(exitFailure, "the copy is not complete, in %d places; run the same command again, and if that does not mend it, "+
			"empty the destination and begin anew", told)
	case told > 0:
		return exit(exitFailure, "%d tasks and settings were not copied: the destination has others in their place", told)
	case r.Nothing:
		a.note("there was nothing to do: the destination has these tasks, and no others")
	}
	return nil
}

func (a *app) printCopy(c *copying, r *transfer.Report) error {
	j := copyJSON{
		From: c.from.name, To: c.to.name, Tasks: r.Rows, Added: r.Added, Settings: r.Settings, Checksum: r.Source.String(),
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

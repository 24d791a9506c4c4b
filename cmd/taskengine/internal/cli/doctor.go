package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/storage/transfer"
)

func newDoctor(a *app) *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:   "doctor STORE",
		Short: "Examine a store and explain what is wrong with it",
		Long: `Examine a store and say what is wrong, why that matters, and what to do about it. Nothing
is changed. The exit code is 1 if there is a finding of the severity error.

` + placeHelp + `

A store in files must not be in use, and is read as a whole: every index is held against
the tasks. Of a node that must not stop, examine a backup. PostgreSQL is examined while
nodes use it: the tasks that have not ended are read once, and beyond that its own
statistics. Let the role be a member of pg_read_all_stats, so that it sees the sessions
of others.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.placeOf(args[0], schema)
			if err != nil {
				return err
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error {
				found, err := a.examine(ctx, p)
				if err != nil {
					return oneLine(err)
				}
				return a.showFindings(p, found)
			})
		},
	}
	cmd.Flags().StringVar(&schema, "schema", "", "the schema, if the store is in PostgreSQL")
	return cmd
}

// severity says how much a finding matters.
type severity string

const (
	isInfo    severity = "info"    // nothing to do
	isWarning severity = "warning" // to be looked at
	isError   severity = "error"   // to be mended: tasks do not run, or can be lost
)

// finding is something that the doctor has to say.
type finding struct {
	Severity severity `json:"severity"`
	Check    string   `json:"check"`
	What     string   `json:"what"`
	Why      string   `json:"why,omitempty"`
	Do       string   `json:"do,omitempty"`
}

// findings are collected in the order of the checks.
type findings []finding

func (f *findings) info(check, format string, args ...any) {
	*f = append(*f, finding{Severity: isInfo, Check: check, What: fmt.Sprintf(format, args...)})
}

func (f *findings) add(s severity, check, what, why, do string) {
	*f = append(*f, finding{s, check, what, why, do})
}

// examine looks at a store: of several databases at each.
func (a *app) examine(ctx context.Context, p place) (found findings, err error) {
	p.part = true
	if len(p.from.Databases) == 0 {
		return a.examineOne(ctx, p)
	}
	others := p.from.Databases
	p.from.Databases = nil
	look := func(name string, one place) error {
		in, err := a.examineOne(ctx, one)
		if ctx.Err() != nil {
			return err
		}
		if err != nil { // the others can be looked at all the same
			in.add(isError, "open", oneLine(err).Error(), "what is in it does not run, and nodes that start wait for it", "start it, or correct its URL")
		}
		for _, f := range in {
			if name != config.Main {
				f.Check = name + ": " + f.Check
			}
			found = append(found, f)
		}
		return nil
	}
	if err := look(config.Main, p); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if err := look(name, place{driver: p.driver, url: others[name].Reveal(), schema: p.schema, part: true}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// examineOne opens a store and looks at it.
func (a *app) examineOne(ctx context.Context, p place) (found findings, err error) {
	var backup *manifest
	if p.driver != config.Postgres {
		if backup, err = examineBackup(ctx, &found, p.path); err != nil {
			return nil, err
		}
	}
	s, err := p.look(ctx, a.newLog(config.Log{Level: slog.LevelWarn}))
	switch {
	case err == nil:
	case errors.Is(err, storage.ErrLocked), errors.Is(err, storage.ErrFormat), errors.Is(err, errOtherDriver), errors.Is(err, errNoStore) && backup == nil, ctx.Err() != nil:
		return nil, err
	case errors.Is(err, schema.ErrMismatch):
		found.add(isError, "schema", oneLine(err).Error(), "nodes of this version do not start on these tables", "do what it says, and see `taskengine migrate verify`")
		return found, nil
	case p.driver == config.Postgres:
		return nil, err
	default:
		found.add(isError, "open", err.Error(), "a node does not start on this store", "look at the disk, and then restore a backup to another folder")
		return found, nil
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := transfer.Unfinished(ctx, s); errors.Is(err, transfer.ErrUnfinished) {
		found.add(isError, "copy", err.Error(), "no node starts on this store", "run the same copy again; or, if it is not wanted, empty the store")
	} else if err != nil {
		return nil, err
	}
	if database, ok := s.(*postgres.Store); ok {
		h, err := health.Examine(ctx, database)
		if err != nil {
			return nil, err
		}
		judgeDatabase(&found, h)
		home, err := database.Holdings(ctx)
		if err != nil {
			return nil, err
		}
		judgeHome(&found, home)
		examineTables(ctx, &found, p, h)
		return found, nil
	}
	return found, a.examineFiles(ctx, &found, p, s, backup)
}

// showFindings shows what was found, the worst first. Its error says whether there is one.
func (a *app) showFindings(p place, found findings) error {
	order := []severity{isError, isWarning, isInfo}
	slices.SortStableFunc(found, func(a, b finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	count := make(map[severity]int)
	for _, f := range found {
		count[f.Severity]++
		if err := a.showFinding(f); err != nil {
			return err
		}
	}
	if n := count[isError]; n > 0 {
		return exit(exitFailure, "%s is not well: errors %d, warnings %d", p.name, n, count[isWarning])
	}
	a.note("%s: no errors, warnings %d", p.name, count[isWarning])
	return nil
}

func (a *app) showFinding(f finding) error {
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

// ago says how long a time is over.
func ago(now, t time.Time) string { return span(now.Sub(t)) }

// bytesText returns a size as people say it.
func bytesText(n int64) string {
	const unit = 1024
	switch {
	case n >= 10*unit*unit*unit:
		return fmt.Sprintf("%d GiB", n/unit/unit/unit)
	case n >= 10*unit*unit:
		return fmt.Sprintf("%d MiB", n/unit/unit)
	case n >= 10*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	}
	return fmt.Sprintf("%d bytes", n)
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordination"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
)

func newCoordination(a *app) *cobra.Command {
	return group("coordination", "Show, reset and clean up how nodes coordinate",
		newCoordinationShow(a), newCoordinationReset(a), newCoordinationClean(a))
}

const coordinationHelp = `

The first node of a store in PostgreSQL records there how it coordinates with other nodes. A
node that coordinates in another way does not start: it would consider the others dead and run
their tasks.

` + locationHelp

func newCoordinationShow(a *app) *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:   "show STORE",
		Short: "Show how the nodes of a store coordinate",
		Long: `Show for each database of a store how its nodes coordinate, as they have recorded it. If the
configuration names etcd or ZooKeeper, show the entries there below its prefix.` + coordinationHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCoordination(cmd.Context(), args[0], schema, func(ctx context.Context, p stores.Location, log *slog.Logger) error {
				records, err := coordination.Read(ctx, p, log)
				isAlone := errors.Is(err, coordination.ErrUnshared) && p.Coordination.IsExternal()
				if err != nil && !isAlone {
					return err
				}
				if err := a.showCoordination(records); err != nil || !p.Coordination.IsExternal() {
					return err
				}
				c, err := coordination.Contents(ctx, p, log)
				if err != nil {
					return err
				}
				return a.showContents(p, c)
			})
		},
	}
	cmd.Flags().StringVar(&schema, "schema", "", "the schema of the tables")
	return cmd
}

func newCoordinationReset(a *app) *cobra.Command {
	var schema string
	var isStopped bool
	cmd := &cobra.Command{
		Use:   "reset STORE",
		Short: "Remove the record, while all nodes are stopped, so that the next node records its coordination",
		Long: `Remove the record of how the nodes of a store coordinate, so that the next node that starts
records how it does. Stop all nodes before. The command refuses a store that nodes use. If it
cannot see the nodes of the recorded coordination, because they coordinate in a database that
is not part of the store, or one process used the store alone, it needs --all-stopped.` + coordinationHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCoordination(cmd.Context(), args[0], schema, func(ctx context.Context, p stores.Location, log *slog.Logger) error {
				removed, err := coordination.Reset(ctx, p, isStopped, log)
				switch {
				case errors.Is(err, coordination.ErrAlive):
					return exit.Errorf(exit.Failure, "%w; stop them first. A node that was killed counts as alive until its lease is over", err)
				case errors.Is(err, coordination.ErrUnseen):
					return exit.Errorf(exit.Failure, "%w; make sure that all of them are stopped, and add --all-stopped", err)
				}
				for _, r := range removed {
					a.note("%s: the record (%v) is removed", r.Database, r.Is)
				}
				if err == nil && len(removed) == 0 {
					a.note("there was no record")
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&schema, "schema", "", "the schema of the tables")
	cmd.Flags().BoolVar(&isStopped, "all-stopped", false, "all nodes of the store are stopped, also nodes that are not visible in it")
	return cmd
}

// withCoordination runs fn on a store of the command line.
func (a *app) withCoordination(ctx context.Context, arg, schema string, fn func(context.Context, stores.Location, *slog.Logger) error) error {
	p, err := a.locate(arg, schema)
	if err != nil {
		return err
	}
	return untilSignalled(ctx, func(ctx context.Context) error {
		err := fn(ctx, p, a.warnings())
		if errors.Is(err, coordination.ErrUnshared) {
			return exit.Errorf(exit.Usage, "%s: %w", p.Name, err)
		}
		return database.OneLine(err)
	})
}

// showCoordination shows the record in each database.
func (a *app) showCoordination(records []coordination.Record) error {
	rows := make([][]string, len(records))
	for i, r := range records {
		j := coordinationJSON{Database: r.Database, Driver: r.Is.Driver, ID: r.Is.ID, Name: r.Is.Name}
		if a.json() {
			if err := a.printJSON(j); err != nil {
				return err
			}
		}
		rows[i] = []string{j.Database, cmp.Or(j.Driver, "not recorded"), j.Name, j.ID}
	}
	if a.json() || len(records) == 0 {
		return nil
	}
	return a.printSheets(sheet{head: []string{"DATABASE", "COORDINATION", "WHERE", "ID"}, rows: rows, foreign: true})
}

type coordinationJSON struct {
	Database string `json:"database"`
	Driver   string `json:"driver,omitempty"`
	ID       string `json:"id,omitempty"`
	Name     string `json:"name,omitempty"`
}

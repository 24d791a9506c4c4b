package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/storage"
)

func newShards(a *app) *cobra.Command {
	return group("shards", "Divide the tasks among several databases",
		newShardsList(a), newShardsDivide(a), newShardsMove(a))
}

const shardsHelp = `

Where storage.databases names more databases than that of storage.url, each of them holds
some of 256 shards: a part of the tasks, by their IDs.`

// withParts runs fn on the databases of a configuration.
func (a *app) withParts(ctx context.Context, flags *configFlags, fn func(ctx context.Context, ds database.Databases) error) error {
	if err := flags.find(); err != nil {
		return err
	}
	cfg, err := flags.load(a)
	if err != nil {
		return err
	}
	if len(cfg.Storage.Databases) == 0 {
		return exit.Errorf(exit.Usage, "the configuration has no storage.databases: one database holds all tasks, or none does")
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	return untilSignalled(ctx, func(ctx context.Context) error {
		ds, err := database.OpenAll(ctx, cfg.Storage, log)
		if err != nil {
			return err
		}
		defer func() { _ = ds.Close() }() // nothing is under way
		return database.OneLine(fn(ctx, ds))
	})
}

// showHomes shows which shards databases hold.
func (a *app) showHomes(ds database.Databases, homes []storage.Holdings) error {
	rows := make([][]string, len(ds))
	for i, p := range ds {
		h := homes[i]
		j := shardsJSON{Database: p.Name, Shards: h.Owned.String(), Leaving: h.Migrating.String(), To: h.To}
		if a.json() {
			if err := a.printJSON(j); err != nil {
				return err
			}
		}
		leaving := j.Leaving
		if leaving != "" {
			leaving += " to " + j.To
		}
		rows[i] = []string{j.Database, j.Shards, leaving}
	}
	if a.json() {
		return nil
	}
	return a.printTable([]string{"DATABASE", "SHARDS", "LEAVING"}, rows)
}

// shardsJSON has the shards of a database; sets of shards are like 0-127,200.
type shardsJSON struct {
	Database string `json:"database"`
	Shards   string `json:"shards"`
	Leaving  string `json:"leaving,omitempty"`
	To       string `json:"to,omitempty"`
}

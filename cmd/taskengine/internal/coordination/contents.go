package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/coord"
)

// patience is how long a coordinator may take to answer a command.
const patience = 20 * time.Second

// Contents returns the contents of the coordinator of a configuration, below its prefix. The
// configuration must name etcd or ZooKeeper.
func Contents(ctx context.Context, p stores.Location, log *slog.Logger) (coord.Contents, error) {
	return keeping(ctx, p, log, coord.Keeper.Contents)
}

// Clean removes the contents of the coordinator of a configuration below its prefix, and returns them. It
// refuses with an error that wraps [coord.ErrInUse] if a node is alive.
func Clean(ctx context.Context, p stores.Location, log *slog.Logger) (coord.Contents, error) {
	return keeping(ctx, p, log, coord.Keeper.Clean)
}

func keeping(ctx context.Context, p stores.Location, log *slog.Logger, call func(coord.Keeper, context.Context) (coord.Contents, error)) (all coord.Contents, err error) {
	c, err := coordinator.Open(ctx, p.Coordination, coordinator.Use{Log: log})
	if err != nil {
		return coord.Contents{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if all, err = call(c, within); err != nil {
		return all, fmt.Errorf("%s at %s: %w", p.Coordination.Driver, strings.Join(p.Coordination.Endpoints, ", "), err)
	}
	return all, nil
}

// checkGone returns an error that wraps ErrAlive if nodes of one of some databases are members at the coordinator: they
// may be cut off from the database.
func checkGone(ctx context.Context, p stores.Location, databases []coord.Identity, log *slog.Logger) error {
	c, err := Contents(ctx, p, log)
	if err != nil {
		return err
	}
	for _, m := range c.Members {
		if slices.ContainsFunc(databases, func(id coord.Identity) bool { return id.ID == m.Store }) {
			return fmt.Errorf("%w: %s, at the coordinator", ErrAlive, m.Name)
		}
	}
	return nil
}

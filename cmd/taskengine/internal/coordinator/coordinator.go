// Package coordinator connects to the coordinator that a configuration names: etcd or ZooKeeper.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/coord/zk"
)

// Connection is a connection to etcd or ZooKeeper.
type Connection interface {
	coord.Keeper

	// Coordinator returns its ports.
	Coordinator() coord.Coordinator

	// Check asks the coordinator once whether the node can use it. The error wraps [coord.ErrRefused] if it cannot
	// before a configuration changes.
	Check(ctx context.Context) error

	// Version returns the version of a server; "" if none says it.
	Version(ctx context.Context) string
	Close() error
}

// Use is the purpose of a connection.
type Use struct {
	Store string           // id of the store of tasks that the node shares with others; "": it shares none
	Now   func() time.Time // the clock of rates; nil for that of the machine
	Log   *slog.Logger
}

const (
	patience = 10 * time.Second       // with a coordinator that does not answer at the start
	pause    = 250 * time.Millisecond // between two tries

	probePatience = 5 * time.Second // with a coordinator that is only examined

	adviceIfAway = "start or mend it, or correct coordination.endpoints"
)

// Open connects to the coordinator of a configuration, and waits until it answers, but not for long. The caller closes
// the result.
func Open(ctx context.Context, c config.Coordination, u Use) (Connection, error) {
	opened, err := connect(c, u)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, opened, u.Log); err != nil {
		_ = opened.Close() // the first error says more
		return nil, err
	}
	return opened, nil
}

// Oldest returns the oldest version of a coordinator that nodes use.
func Oldest(driver string) string {
	if driver == config.ZooKeeper {
		return zk.OldestServer
	}
	return etcd.OldestServer
}

// Probe returns the version of the coordinator of a configuration, "" if it does not say it, and why a node cannot use it. It waits a few
// seconds for an answer.
func Probe(ctx context.Context, c config.Coordination) (version string, err error) {
	opened, err := connect(c, Use{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probePatience, fmt.Errorf("no answer within %v", probePatience))
	defer cancel()
	if err = opened.Check(ctx); err == nil {
		version = opened.Version(ctx)
	}
	_ = opened.Close() // it holds nothing
	if err != nil && !errors.Is(err, coord.ErrRefused) {
		err = fmt.Errorf("%w; %s", err, adviceIfAway)
	}
	return version, err
}

// EtcdHistory describes the earlier states that the etcd of a configuration keeps. It waits a few seconds for an answer.
func EtcdHistory(ctx context.Context, c config.Coordination) (etcd.History, error) {
	opened, err := connect(c, Use{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return etcd.History{}, err
	}
	defer func() { _ = opened.Close() }() // it holds nothing
	keeps, ok := opened.(*etcd.Coord)
	if !ok {
		return etcd.History{}, fmt.Errorf("%s is not etcd", c.Driver)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probePatience, fmt.Errorf("no answer within %v", probePatience))
	defer cancel()
	return keeps.History(ctx)
}

// connect returns a connection that was not used yet.
func connect(c config.Coordination, u Use) (Connection, error) {
	encryption, err := encryption(c.TLS)
	if err != nil {
		return nil, err
	}
	if c.Driver == config.ZooKeeper {
		return zk.New(zk.Options{
			Endpoints: c.Endpoints, Prefix: c.Prefix, Lease: c.Lease, Store: u.Store, TLS: encryption,
			User: c.User, Password: c.Password.Reveal(), SASL: c.Auth == config.SASL, Now: u.Now, Log: u.Log,
		})
	}
	return etcd.New(etcd.Options{
		Endpoints: c.Endpoints, Prefix: c.Prefix, Lease: c.Lease, Store: u.Store, TLS: encryption,
		User: c.User, Password: c.Password.Reveal(), Now: u.Now, Log: u.Log,
	})
}

// await waits until the coordinator answers: it may be starting together with this node.
func await(ctx context.Context, opened Connection, log *slog.Logger) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var reason error
	for {
		err := opened.Check(within)
		switch {
		case err == nil, errors.Is(err, coord.ErrRefused):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case within.Err() != nil && reason != nil: // the try was cut off
		default:
			if reason == nil {
				log.Warn("the coordinator cannot be used and is tried again", "for", patience, "error", err)
			}
			reason = err
		}
		select {
		case <-time.After(pause):
		case <-within.Done():
			return fmt.Errorf("the coordinator could not be used for %v: %v; %s", patience, reason, adviceIfAway)
		}
	}
}

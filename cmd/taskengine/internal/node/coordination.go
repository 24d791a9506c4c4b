package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/alerting"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/brokers"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/guid"
	kafkacoord "github.com/taskengine/taskengine/coord/kafka"
	pgcoord "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgsession"
)

// conns is the number of connections that a node has for coordination. They are its own, so that
// queries about tasks cannot delay the renewal of its lease.
const conns = 2

// coordination connects a node with the others. A node alone has neither part.
type coordination struct {
	pool     *pgxpool.Pool
	database *pgcoord.Coord         // of the nodes that share the store; nil: the store has one node
	external coordinator.Connection // etcd or ZooKeeper; nil: none
	topic    *kafkacoord.Bus        // carries hints and messages by Kafka; nil: the database does
	messages *guid.Elector          // elects by messages; nil: the others elect
}

// openCoordination opens the coordination of a configuration. The caller closes the result after an error,
// too.
func openCoordination(ctx context.Context, c *config.Config, log *slog.Logger) (*coordination, error) {
	t := &coordination{}
	if c.Storage.Driver == config.Postgres {
		if err := t.openDatabase(ctx, c, log); err != nil {
			return t, err
		}
	}
	if c.Storage.Driver != config.Memory && c.Coordination.IsExternal() {
		if err := t.openExternal(ctx, c, log); err != nil {
			return t, err
		}
	}
	if c.Storage.Driver == config.Memory && c.Coordination.Driver != "" && c.Coordination.Driver != config.Local {
		log.Warn("a node with tasks in memory is alone: coordination.driver has no effect", "driver", c.Coordination.Driver)
	}
	if t.database != nil && c.Bus.Driver == config.KafkaBus {
		if err := t.openTopic(ctx, c, log); err != nil {
			return t, err
		}
	}
	if t.database == nil || c.Coordination.Roles != config.GUID {
		return t, nil
	}
	messages, err := t.carrier()
	if err != nil {
		return t, fmt.Errorf("coordination.roles: %w", err)
	}
	t.messages, err = guid.New(messages, electionOf(c.Coordination, log))
	return t, err
}

// carrier returns the carrier of messages between the nodes of the database.
func (t *coordination) carrier() (coord.Messages, error) {
	if t.topic != nil {
		return t.topic, nil
	}
	return t.database.Messages()
}

// openTopic begins to use a topic of Kafka for hints and messages. It does not wait for a broker.
func (t *coordination) openTopic(ctx context.Context, c *config.Config, log *slog.Logger) error {
	var store string
	err := database.Retry(ctx, c.Storage, log, func(ctx context.Context) (err error) {
		store, _, err = t.lookAtDatabase(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t.topic, err = kafkacoord.New(kafkacoord.Options{
		Connection: brokers.Connection(c.Bus.Connection, c.Kafka[c.Bus.Connection]), Topic: c.Bus.Topic, Cluster: store,
		Create: c.Bus.CreateTopics, Partitions: c.Bus.Partitions, Log: log,
	})
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

// electionOf returns how roles are elected by messages: another node takes over as soon as with the other ways.
func electionOf(c config.Coordination, log *slog.Logger) guid.Options {
	return guid.Options{Lease: c.Lease, Log: log}
}

// openDatabase opens the coordination in the database of the tasks.
func (t *coordination) openDatabase(ctx context.Context, c *config.Config, log *slog.Logger) error {
	conf, err := pgxpool.ParseConfig(c.Storage.URL.Reveal())
	if err != nil {
		return fmt.Errorf("storage.url: %w", err)
	}
	pgsession.Prepare(&conf.ConnConfig.Config)
	conf.BeforeConnect = pgsession.Renew(c.Storage.URL.Now)
	conf.MaxConns, conf.MinConns = conns, 0
	conf.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > 3*c.Coordination.Lease
	}
	if t.pool, err = pgxpool.NewWithConfig(ctx, conf); err != nil {
		return fmt.Errorf("storage.url: %w", database.OneLine(err))
	}
	listen := c.Bus.Listen.Reveal()
	if listen == "none" {
		listen = pgcoord.ListenOff
	}
	t.database, err = pgcoord.New(t.pool, pgcoord.Options{
		Schema: c.Storage.Schema, Lease: c.Coordination.Lease, Listen: listen, ListenAgain: c.Bus.Listen.Now, Log: log,
	})
	if err != nil {
		return fmt.Errorf("join the other nodes: %w", err)
	}
	return nil
}

// openExternal connects to etcd or ZooKeeper. The identity in a database distinguishes its nodes from the nodes of
// others.
func (t *coordination) openExternal(ctx context.Context, c *config.Config, log *slog.Logger) error {
	use := coordinator.Use{Log: log}
	if t.database != nil {
		err := database.Retry(ctx, c.Storage, log, func(ctx context.Context) (err error) {
			use.Store, use.Now, err = t.lookAtDatabase(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	var err error
	t.external, err = coordinator.Open(ctx, c.Coordination, use)
	return err
}

// clockPatience is how long the first reading of the database's clock may take.
const clockPatience = 10 * time.Second

// lookAtDatabase returns the identity of the store, and the clock of its nodes.
func (t *coordination) lookAtDatabase(ctx context.Context) (store string, now func() time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, clockPatience, fmt.Errorf("the database did not answer for %v", clockPatience))
	defer cancel()
	id, err := t.database.Identity(ctx)
	if err != nil {
		return "", nil, err
	}
	now, err = t.database.ReadClock(ctx)
	return id.ID, now, err
}

// configure sets the coordination in the configuration of an engine.
func (t *coordination) configure(c *engine.Config, from config.Coordination) {
	by := &c.Coordinator
	switch {
	case t.database != nil && t.external != nil:
		*by = t.external.Coordinator()
		by.Bus, by.Clock = t.database, t.database
	case t.database != nil:
		*by = t.database.Coordinator()
	case t.external != nil: // the store is this node's own, and so are the duties about it
		*by = t.external.Coordinator().Apart()
	default:
		return
	}
	if t.topic != nil {
		by.Bus = hints{t.topic, t.database}
	}
	if t.messages != nil {
		by.Elector = t.messages
	}
	c.Lease = from.Lease
}

// peers returns where this node coordinates with others that have stores of their own; zero if it does not.
func (t *coordination) peers() alerting.Peers {
	if t.database != nil || t.external == nil {
		return alerting.Peers{}
	}
	by := t.external.Coordinator()
	return alerting.Peers{Elector: by.Elector, Settings: by.Settings}
}

// settings returns the settings that all nodes of the cluster share; nil if this node is alone.
func (t *coordination) settings() coord.Config {
	switch {
	case t.external != nil:
		return t.external.Coordinator().Settings
	case t.database != nil:
		return t.database.Coordinator().Settings
	}
	return nil
}

func (t *coordination) close(context.Context) error {
	var errs []error
	if t.topic != nil {
		errs = append(errs, t.topic.Close())
	}
	if t.external != nil {
		errs = append(errs, t.external.Close())
	}
	if t.database != nil {
		errs = append(errs, t.database.Close())
	}
	if t.pool != nil {
		t.pool.Close()
	}
	return errors.Join(errs...)
}

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// stage is a phase that runs. The method of its kind begins the pressure, and adds the functions that end it.
type stage struct {
	*way
	phase
	ctx  context.Context // of the phase: ends with it
	work sync.WaitGroup  // the goroutines of the pressure; they end with ctx
	ends []func() error  // called after the phase and its work, in reverse

	mu    sync.Mutex
	wrong error // guarded by mu: the first error of the work
}

// during runs a part of the pressure until the phase ends. An error after that is of no interest.
func (s *stage) during(f func(context.Context) error) {
	s.work.Go(func() {
		err := f(s.ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wrong == nil && s.ctx.Err() == nil {
			s.wrong = err
		}
	})
}

// sleep waits, and reports whether the phase goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// connect returns a connection of this program, which ends after the phase.
func (s *stage) connect() (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = ours
	c, err := pgx.ConnectConfig(s.ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect for %s: %w", s.name, err)
	}
	s.ends = append(s.ends, func() error { _ = c.Close(context.Background()); return nil }) // it may be broken
	return c, nil
}

// exec runs statements on a connection of their own.
func (s *stage) exec(statements ...string) (*pgx.Conn, error) {
	c, err := s.connect()
	for _, sql := range statements {
		if err == nil {
			_, err = c.Exec(s.ctx, sql)
		}
	}
	return c, err
}

// holdTransaction holds the horizon of vacuum by a transaction that does nothing.
func (s *stage) holdTransaction() error {
	_, err := s.exec("begin", "select txid_current()")
	return err
}

// holdSlot makes a logical slot that nobody reads: the server keeps the log since then, and old rows of its catalog.
func (s *stage) holdSlot() error {
	c, err := s.exec("select pg_create_logical_replication_slot('pressure', 'pgoutput')")
	if err != nil {
		return err
	}
	s.ends = append(s.ends, func() error {
		_, err := c.Exec(context.Background(), "select pg_drop_replication_slot('pressure')")
		return err
	})
	return nil
}

// readers is the number of connections that read the tables.
const readers = 4

// read has transactions at repeatable read scan the largest tables of the queue, each for the whole phase.
func (s *stage) read() error {
	rows, err := s.pool.Query(s.ctx, `select format('%I.%I', schemaname, relname) from pg_stat_user_tables where relname <> 'bystander'
order by pg_total_relation_size(relid) desc limit 2`)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for range readers {
		c, err := s.exec("begin isolation level repeatable read")
		if err != nil {
			return err
		}
		s.during(func(ctx context.Context) error {
			for sleep(ctx, 500*time.Millisecond) {
				for _, t := range tables {
					if _, err := c.Exec(ctx, "select count(*) from (select from "+t+" limit 20000) t"); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return nil
}

// longestDown is the longest time for which the server is down.
const longestDown = 30 * time.Second

// restartServer crashes the server, and starts it again after half of the phase.
func (s *stage) restartServer() error {
	if err := s.server.Crash(); err != nil {
		return err
	}
	s.ends = append(s.ends, func() error {
		if !s.down {
			return nil
		}
		s.down = false
		return s.server.Restart()
	})
	s.down = true
	s.during(func(ctx context.Context) error {
		if !sleep(ctx, min(s.lasts/2, longestDown)) {
			return nil
		}
		err := s.server.Restart()
		s.down = err != nil
		return err
	})
	return nil
}

// killBackends ends two connections a second, of any client but this program.
func (s *stage) killBackends() error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	s.during(func(ctx context.Context) error {
		for sleep(ctx, 500*time.Millisecond) {
			if _, err := c.Exec(ctx, `select pg_terminate_backend(pid) from (select pid from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and application_name <> $1 order by random() limit 1) one`, ours); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// exhaust takes all connections that the server has left, and takes them again as they become free.
func (s *stage) exhaust() error {
	var taken []*pgx.Conn
	take := func(ctx context.Context) {
		for {
			c, err := pgx.Connect(ctx, s.url+"&application_name="+ours)
			if err != nil { // no connection is left
				return
			}
			taken = append(taken, c)
		}
	}
	take(s.ctx)
	s.ends = append(s.ends, func() error {
		for _, c := range taken {
			_ = c.Close(context.Background())
		}
		return nil
	})
	if len(taken) == 0 {
		return errors.New("pool-exhaustion: the server has no connection left before the phase")
	}
	s.during(func(ctx context.Context) error {
		for sleep(ctx, time.Second) {
			take(ctx)
		}
		return nil
	})
	return nil
}

// victim is a process that is killed and started again.
type victim struct {
	kill  func()
	start func() error
}

// victimOf returns a second process that works beside the first, which offers the load. A subject with a store of its own has
// one process, and that is the victim.
func (s *stage) victimOf() (*victim, error) {
	if s.subject.alone {
		return &victim{kill: s.killFirst, start: s.startFirst}, nil
	}
	var second *process
	v := &victim{kill: func() { second.kill() }}
	v.start = func() (err error) {
		if second, err = s.start(1); err != nil {
			return err
		}
		return second.awaitReady()
	}
	s.ends = append(s.ends, func() error { second.stop(); return nil })
	return v, v.start()
}

// killWorker kills a process after a third of the phase, and starts it again after two.
func (s *stage) killWorker() error {
	v, err := s.victimOf()
	if err != nil {
		return err
	}
	s.during(func(ctx context.Context) error {
		if !sleep(ctx, s.lasts/3) {
			return nil
		}
		v.kill()
		sleep(ctx, s.lasts/3)
		return v.start()
	})
	return nil
}

// killRepeatedly kills a process four times, and starts it again at once.
func (s *stage) killRepeatedly() error {
	v, err := s.victimOf()
	if err != nil {
		return err
	}
	s.during(func(ctx context.Context) error {
		for range 4 {
			if !sleep(ctx, s.lasts/6) {
				return nil
			}
			v.kill()
			if err := v.start(); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

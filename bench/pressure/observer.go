//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/bench/result"
)

// ours is the name of the connections of this program, which it does not kill.
const ours = "pressure"

const bystanderRows = 200_000

// observer reads figures of a database, and runs a bystander: another user of it, who reads one row at a time.
type observer struct {
	pool   *pgxpool.Pool
	course *course
	stop   context.CancelFunc
	tasks  sync.WaitGroup
}

// observe prepares a database and returns a pool of connections to it.
func observe(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = ours
	config.MaxConns, config.MinIdleConns = 3, 3 // also while no other connection is free
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		"create table bystander (id int primary key, v text)",
		fmt.Sprintf("insert into bystander select i, repeat('x', 100) from generate_series(1, %d) i", bystanderRows),
		"vacuum analyze bystander",
	} {
		if _, err := pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			pool.Close()
			return nil, fmt.Errorf("prepare the bystander: %w", err)
		}
	}
	return pool, nil
}

// startObserver observes until close.
func startObserver(ctx context.Context, pool *pgxpool.Pool, c *course) *observer {
	ctx, stop := context.WithCancel(ctx)
	o := &observer{pool: pool, course: c, stop: stop}
	o.tasks.Go(func() { repeat(ctx, time.Second, func() { o.read(ctx) }) })
	n := 0
	o.tasks.Go(func() {
		repeat(ctx, 20*time.Millisecond, func() {
			n++
			o.query(ctx, n*7919%bystanderRows+1)
		})
	})
	return o
}

func (o *observer) close() {
	o.stop()
	o.tasks.Wait()
}

// repeat calls f at a pace until ctx ends.
func repeat(ctx context.Context, every time.Duration, f func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// read reads the figures of the database. While the server does not answer, the last ones remain.
func (o *observer) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var f facts
	err := o.pool.QueryRow(ctx, `
select coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, (select coalesce(sum(size), 0)::bigint from pg_ls_waldir())
from pg_stat_user_tables where relname <> 'bystander'`).Scan(&f.dead, &f.tables, &f.log)
	if err == nil {
		o.course.in(time.Now(), func(s *second) { s.Dead, s.Tables, s.Log = f.dead, f.tables, f.log })
	}
}

// query is one query of the bystander.
func (o *observer) query(ctx context.Context, id int) {
	one, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := time.Now()
	var v string
	err := o.pool.QueryRow(one, "select v from bystander where id = $1", id).Scan(&v)
	took := time.Since(began)
	if ctx.Err() != nil {
		return
	}
	o.course.in(time.Now(), func(s *second) {
		if err != nil {
			s.failed++
			return
		}
		if s.bystander == nil {
			s.bystander = result.NewHistogram()
		}
		s.bystander.Record(took)
	})
}

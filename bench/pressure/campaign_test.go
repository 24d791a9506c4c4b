//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
	"github.com/taskengine/taskengine/bench/result"
)

// asAdapter is the argument with which the program of the tests is an adapter.
const asAdapter = "adapter-of-a-table"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asAdapter {
		if err := runTable(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// table is the simplest queue on PostgreSQL.
type table struct {
	pool *pgxpool.Pool
	stop context.CancelFunc
	done chan struct{}
}

func runTable() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := adapter.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, c.Database)
	if err == nil && c.Instance == 0 {
		_, err = pool.Exec(ctx, "create table job (id bigserial primary key, payload bytea, ended bool not null default false)")
	}
	if err != nil {
		return err
	}
	return adapter.Run(ctx, c, adapter.Descriptor{System: "table"}, &table{pool: pool, stop: func() {}}, os.Stdin, os.Stdout)
}

func (q *table) Insert(ctx context.Context, payloads [][]byte) error {
	_, err := q.pool.Exec(ctx, "insert into job (payload) select unnest($1::bytea[])", payloads)
	return err
}

func (q *table) Work(ctx context.Context, handle func([]byte)) error {
	ctx, q.stop = context.WithCancel(context.WithoutCancel(ctx))
	q.done = make(chan struct{})
	go func() {
		defer close(q.done)
		for sleep(ctx, 20*time.Millisecond) {
			rows, err := q.pool.Query(ctx, "update job set ended = true where id in (select id from job where not ended limit 100 for update skip locked) returning payload")
			if err != nil {
				continue
			}
			payloads, _ := pgx.CollectRows(rows, pgx.RowTo[[]byte]) // none while the server is down
			for _, p := range payloads {
				handle(p)
			}
		}
	}()
	return nil
}

func (q *table) Counts(ctx context.Context) (c adapter.Counts, err error) {
	err = q.pool.QueryRow(ctx, "select count(*) filter (where not ended), count(*) filter (where ended) from job").Scan(&c.Open, &c.Ended)
	return c, err
}

func (q *table) Close() error {
	q.stop()
	if q.done != nil {
		<-q.done
	}
	q.pool.Close()
	return nil
}

func TestACampaignGoesThroughItsPhasesOnARealServer(t *testing.T) {
	phases, err := parsePhases("idle-in-tx=2s,active-readers=2s,postgres-restart=2s,kill-worker=3s", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p := plan{rate: 100, phases: phases, workers: 4, dir: t.TempDir(), patience: time.Minute, log: &log}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	course, err := p.run(t.Context(), subject{name: "table", about: result.Subject{Name: "table", Store: "PostgreSQL"}, program: program, args: []string{asAdapter}})
	if err != nil {
		t.Fatalf("%v; its log is %s", err, &log)
	}
	if course.Check.Lost > 0 || !course.Check.OK {
		t.Errorf("the check is %+v", course.Check)
	}
	if len(course.Phases) != 4 {
		t.Fatalf("the phases are %+v", course.Phases)
	}
	var started, tables, asked int64
	for _, p := range course.Phases {
		started, tables, asked = started+p.Started, max(tables, p.Tables), asked+p.Bystander.Count()
	}
	if started == 0 || tables == 0 || asked == 0 {
		t.Errorf("%d are started, the tables have %d bytes, the bystander asked %d times", started, tables, asked)
	}
	for i, want := range phases {
		if got := course.Phases[i]; got.Kind != want.name || got.To <= got.From || got.Offered == 0 {
			t.Errorf("phase %d is %+v, want %s", i, got, want.name)
		}
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if err := write(&result.Campaign{Courses: []*result.Course{course}}, dir, &out); err != nil || out.Len() == 0 {
		t.Errorf("it is written as %s, %v", &out, err)
	}
	for _, name := range []string{"result.json", "report.html", "table.txt"} {
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing: %v", name, err)
		}
	}
}

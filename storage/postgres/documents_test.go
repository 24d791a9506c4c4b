package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// countInDocument is a handler that adds one to the number in a document, and ends its attempt in the same transaction, by SQL or by Go.
func countInDocument(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
	const key = "count"
	bySQL := rand.IntN(2) == 0
	err := n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		if _, err := tx.Exec(ctx, "insert into steps values ($1)", t.ID.String()); err != nil {
			return err
		}
		if bySQL {
			var was struct{ n, version int64 }
			err := tx.QueryRow(ctx, "select data::bigint, version from taskengine.read_document($1)", key).Scan(&was.n, &was.version)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if _, err := tx.Exec(ctx, "select taskengine.write_document($1, to_jsonb($2::bigint), if_version => $3)", key, was.n+1, was.version); err != nil {
				return err
			}
			return finishBySQL(ctx, tx, t, "")
		}
		was, err := task.ReadDocument(ctx, key)
		if err != nil {
			return err
		}
		var count int
		_, _ = fmt.Sscan(string(was.Data), &count)
		if err := n.WriteDocumentsTx(ctx, x, was.Write(fmt.Append(nil, count+1))); err != nil {
			return err
		}
		return engine.FinishTx(ctx, x, nil)
	})
	switch {
	case codeOf(err) == "TE006":
		return nil, task.Snooze(time.Duration(rand.IntN(20)) * time.Millisecond)
	case err != nil:
		return nil, err
	case bySQL && rand.IntN(4) == 0:
		panic("after the commit")
	}
	return nil, task.Ended()
}

func TestTasksThatCountInADocumentBySQLAndGoLoseNone(t *testing.T) {
	const tasks = 60
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "create table steps (id uuid primary key)")
	set := types("count")
	p := set.Types["count"]
	p.Retry.Max = 1000
	set.Types["count"] = p
	nodes := []*node{join(t, url, set, map[string]work{"count": countInDocument}), join(t, url, set, map[string]work{"count": countInDocument})}
	var ids []task.ID
	for i := range tasks {
		ids = append(ids, nodes[i%2].submit(engine.Request{Type: "count"}))
	}
	for _, id := range ids {
		nodes[0].end(id, task.Done)
	}
	d, err := nodes[0].Document(t.Context(), "count")
	if err != nil || string(d.Data) != fmt.Sprint(tasks) {
		t.Errorf("the document is %+v, %v", d, err)
	}
	c := pgtest.Connect(t, url)
	if got := one[int](t, c, "select count(*) from steps"); got != tasks {
		t.Errorf("%d attempts have committed, want %d", got, tasks)
	}
	if got := one[string](t, c, "select concat_ws(' ', data, version, created_at <= updated_at) from taskengine.documents where key = 'count'"); got != fmt.Sprintf("%d %d t", tasks, d.Version) {
		t.Errorf("the view has %q", got)
	}
	if wrong := one[int](t, c, "select taskengine.recount()"); wrong != 0 {
		t.Errorf("%d counts are wrong", wrong)
	}
}

func TestDocumentsThatSQLWritesAreThoseOfGo(t *testing.T) {
	n := alone(t, server.Database(t), types("mail"), nil)
	pool := n.store.Pool()
	for _, data := range []string{"", "text", "\x00te\x01\x00", "\xff\x00"} {
		version := one[int64](t, pool, "select taskengine.write_document_bytes('k', $1)", []byte(data))
		if d, err := n.Document(t.Context(), "k"); err != nil || string(d.Data) != data || int64(d.Version) != version {
			t.Errorf("Go reads %+v, %v; want %q with version %d", d, err, data, version)
		}
		if err := n.WriteDocuments(t.Context(), task.DocumentWrite{Key: "k", Data: []byte(data), Replaces: new(uint64(version))}); err != nil {
			t.Error(err)
		}
		if got := one[[]byte](t, pool, "select bytes from taskengine.read_document('k') where version = $1", version+1); string(got) != data {
			t.Errorf("SQL reads %q, want %q", got, data)
		}
	}
	one[string](t, pool, "select taskengine.delete_document('k')::text")
	if _, err := n.Document(t.Context(), "k"); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("after it was deleted: %v", err)
	}
	one[int64](t, pool, "select taskengine.write_document('past', '1', expires_at => now() - interval '1 second')")
	one[int64](t, pool, "select taskengine.write_document('soon', '1', expires_at => now() + interval '1 hour')")
	if got := one[string](t, pool, "select string_agg(key, ' ') from taskengine.documents"); got != "soon" {
		t.Errorf("the view has the documents %q", got)
	}
}

// Of transactions that create a document at once one succeeds, and the others see it.
func TestADocumentIsCreatedByOneTransaction(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	first, second, look := pgtest.Connect(t, url), pgtest.Connect(t, url), pgtest.Connect(t, url)
	for i, end := range []string{"commit", "rollback"} {
		for _, version := range []string{"0", "null"} {
			write := fmt.Sprintf("select taskengine.write_document('k%d %s', '1', if_version => %[2]s)", i, version)
			pgtest.Exec(t, first, "begin", write)
			wrote := make(chan error, 1)
			go func() {
				_, err := second.Exec(context.WithoutCancel(t.Context()), write)
				wrote <- err
			}()
			for one[int](t, look, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 0 {
				if len(wrote) > 0 {
					t.Fatal("it does not wait for the other transaction")
				}
			}
			pgtest.Exec(t, first, end)
			if err := <-wrote; (codeOf(err) == "TE006") != (end == "commit" && version == "0") || codeOf(err) == "" && err != nil {
				t.Errorf("after a %s, version %s: %v", end, version, err)
			}
		}
	}
}

func TestAWriteOfADocumentThatCannotBeIsRefusedInSQL(t *testing.T) {
	s := postgrestest.Open(t, server.Database(t))
	version := one[int64](t, s.Pool(), "select taskengine.write_document('there', '1')")
	for call, want := range map[string]string{
		"write_document('', '1')":                                              "22023 the key of a document is missing",
		"write_document(null, '1')":                                            "22023 the key of a document is missing",
		"write_document(repeat('ä', 251), '1')":                                "22023 has 502 bytes, of 500 allowed",
		`write_document(E'a\n', '1')`:                                          "22023 characters that cannot be printed",
		"write_document_bytes('k', repeat('x', 262145)::bytea)":                `22023 the document "k": the data has 262145 bytes, of 262144 allowed`,
		"write_document('k', '1', -1)":                                         "22023 if_version is -1",
		"write_document('k', '1', expires_at => 'infinity')":                   "22023 between the years 1970 and 9999",
		"write_document('k', '1', 4)":                                          `TE006 the document "k" does not exist any more, and its version 4 was to be replaced`,
		"write_document('there', '1', 0)":                                      fmt.Sprintf(`TE006 the document "there" exists, with version %d, and was to be created`, version),
		"delete_document('there', 4)":                                          fmt.Sprintf(`TE006 the document "there" has version %d, and version 4 was to be replaced`, version),
		"write_documents(null)":                                                "22023 must be a JSON array of objects",
		"write_documents('{}')":                                                "22023 must be a JSON array of objects",
		"write_documents('[1]')":                                               "22023 must be a JSON array of objects",
		`write_documents('[{"data": 1}]')`:                                     "22023 the key of a document is missing",
		`write_documents('[{"key": 1}]')`:                                      "22023 its key is 1, and not text",
		`write_documents('[{"key": "k", "version": 1}]')`:                      `22023 it has the member "version"`,
		`write_documents('[{"key": "k", "delete": 1}]')`:                       "22023 neither true nor false",
		`write_documents('[{"key": "k", "delete": true, "data": 1}]')`:         "22023 it is to be deleted, and has data or a time",
		`write_documents('[{"key": "k", "if_version": "1"}]')`:                 `22023 its if_version is "1"`,
		`write_documents('[{"key": "k", "if_version": 1.5}]')`:                 "22023 its if_version is 1.5",
		`write_documents('[{"key": "k", "if_version": 1e30}]')`:                "22023 and not a version",
		`write_documents('[{"key": "k"}, {"key": "l"}, {"key": "k"}]')`:        `22023 the document "k": it is there twice`,
		`write_documents('[{"key": "k"}, {"key": "there", "if_version": 4}]')`: "TE006 was to be replaced",
		"write_documents((select jsonb_agg(jsonb_build_object('key', n)) from generate_series(1, 17) n))": "22023 there are 17 documents, of 16 allowed",
	} {
		_, err := s.Pool().Exec(t.Context(), "select taskengine."+call)
		if code, text, _ := strings.Cut(want, " "); codeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got := one[string](t, s.Pool(), "select string_agg(concat(key, ' ', version), ' ') from taskengine.documents"); got != fmt.Sprint("there ", version) {
		t.Errorf("there are %q", got)
	}
	pgtest.Exec(t, pgtest.Connect(t, s.Pool().Config().ConnString()),
		"insert into taskengine.home (here, coming, leaving, to_name) values (decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), '')")
	for _, call := range []string{"write_document('there', '1')", "delete_document('other')"} {
		if _, err := s.Pool().Exec(t.Context(), "select taskengine."+call); codeOf(err) != "0A000" || !strings.Contains(err.Error(), "in another database") {
			t.Errorf("%s, in another database: %v", call, err)
		}
	}
}

// A role that may write one document can do nothing else.
func TestARoleThatMayWriteADocumentReadsNone(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("mail"), nil)
	role := "writer_" + strings.ReplaceAll(n.Incarnation().String(), "-", "")
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "create role "+role, "grant usage on schema taskengine to "+role, "grant execute on function taskengine.write_document to "+role, "set role "+role)
	defer pgtest.Exec(t, pgtest.Connect(t, url), "drop owned by "+role, "drop role "+role)
	pgtest.Exec(t, c, "select taskengine.write_document('k', '1')")
	for _, call := range []string{"taskengine.read_document('k')", "taskengine.documents", "taskengine.delete_document('k')", "taskengine.write_documents('[]')", "taskengine.write_document_bytes('k', '')"} {
		if _, err := c.Exec(t.Context(), "select * from "+call); codeOf(err) != "42501" {
			t.Errorf("%s: %v", call, err)
		}
	}
}

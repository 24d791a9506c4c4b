//go:build !race

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

// The documents that there are before an attempt ends. One has expired, and one is erased.
const (
	kept, expiring, expired, erased = "kept", "expiring {tag}", "expired", "erased"
	keptVersion                     = 7
)

// writeSome writes the documents of the constants, each with the version keptVersion.
func writeSome(t *testing.T, s *postgres.Store) {
	t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	for key, until := range map[string]time.Time{kept: {}, expiring: now.Add(24 * time.Hour), expired: now.Add(-time.Minute), erased: {}} {
		c := task.NewDocumentChange(now, &task.DocumentWrite{Key: key, Data: []byte(`"first"`), ExpiresAt: until}, []byte(`"first"`))
		row := c.Over(nil)
		row.Version = keptVersion
		if _, err := s.Insert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		if key != erased {
			continue
		}
		out, err := s.Swap(t.Context(), task.Change{Ref: row.Ref(), To: task.Done, At: now, Erase: &task.Erasure{By: "somebody"}, NextEventAt: now.Add(30 * 24 * time.Hour)})
		if err != nil || out[0] == nil {
			t.Fatal(out, err)
		}
	}
}

// someDocuments returns random writes, which may not be possible.
func someDocuments(r *rand.Rand) (writes []task.DocumentWrite) {
	keys := []string{kept, expiring, expired, erased, "new {tag}", "nëw"}
	r.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	for _, key := range keys[:r.IntN(4)] {
		w := task.DocumentWrite{Key: key, Delete: r.IntN(4) == 0}
		version, rare := uint64(0), r.IntN(40)
		if key == kept || key == expiring {
			version = keptVersion
		}
		switch r.IntN(8) {
		case 0:
			w.Replaces = new(version + 1)
		case 1, 2, 3, 4:
			w.Replaces = &version
		}
		if !w.Delete || rare == 0 {
			w.Data = []byte([]string{`{"left": 6}`, `7`, `"ä"`, ""}[r.IntN(4)])
			w.ExpiresAt = []time.Time{{}, {}, time.Now().Add(time.Hour), time.Now().Add(-time.Hour), time.Now().Add(9000 * time.Hour)}[r.IntN(5)].Truncate(time.Microsecond)
		}
		switch rare {
		case 1:
			w.Key = []string{"", "a\n", strings.Repeat("n", 500), strings.Repeat("n", 501)}[r.IntN(4)]
		case 2:
			w.Data = fmt.Appendf(nil, "%q", strings.Repeat("x", task.MaxDocument-2+r.IntN(2)))
		case 3:
			w.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		case 4:
			writes = append(writes, w)
		case 5:
			for i := range task.MaxDocuments - r.IntN(2) {
				writes = append(writes, task.DocumentWrite{Key: fmt.Sprint("many ", i)})
			}
		}
		writes = append(writes, w)
	}
	return writes
}

func documentsText(writes []task.DocumentWrite) string {
	text := "documents:"
	for _, w := range writes {
		text += fmt.Sprintf(" %.20q %d bytes, delete %v, until %v, replaces ", w.Key, len(w.Data), w.Delete, w.ExpiresAt)
		if w.Replaces != nil {
			text += fmt.Sprint(*w.Replaces)
		}
	}
	return text
}

// writeBySQL writes documents in tx by the functions of the database.
func writeBySQL(ctx context.Context, tx pgx.Tx, writes []task.DocumentWrite) error {
	if len(writes) == 0 {
		return nil
	}
	documents := make([]map[string]any, 0, len(writes))
	for _, w := range writes {
		d := map[string]any{"key": w.Key}
		if len(w.Data) > 0 {
			d["data"] = json.RawMessage(w.Data)
		}
		if w.Delete {
			d["delete"] = true
		}
		if w.Replaces != nil {
			d["if_version"] = *w.Replaces
		}
		if !w.ExpiresAt.IsZero() {
			d["expires_at"] = w.ExpiresAt.Format("2006-01-02 15:04:05.999999Z07:00")
		}
		documents = append(documents, d)
	}
	_, err := tx.Exec(ctx, "select taskengine.write_documents($1)", documents)
	return err
}

// documentsIn returns the rows of documents without what differs from call to call: a version that is the time of the write is 0, and so are times of it. A
// document that is kept for ever and written in its place has the time in the column ended_at that it had.
func documentsIn(ctx context.Context, tx pgx.Tx) (rows []map[string]any, err error) {
	err = tx.QueryRow(ctx, `
select coalesce(jsonb_agg(to_jsonb(r) - array['seq', 'now', 'history', 'updated_at', 'ended_at', 'created_at', 'ready_at'] || jsonb_build_object(
	'version', case r.version when r.updated_at then 0 else r.version end, 'history', length(r.history),
	'created_at', case r.created_at when r.updated_at then 0 else r.created_at end, 'ready_at', case r.ready_at when r.updated_at then 0 else r.ready_at end,
	'ended_at', case when r.keep = 0 or r.ended_at = r.updated_at then 0 else r.ended_at end) order by r.key, r.id), '[]')
from (select *, tableoid::regclass::text as part from taskengine.ended) r where r.type = 'taskengine.document'`).Scan(&rows)
	return rows, err
}

// A document is where the engine looks for it, whatever its key.
func TestTheIDOfADocumentInSQLIsThatOfTheEngine(t *testing.T) {
	n := alone(t, server.Database(t), types("mail"), nil)
	for _, key := range []string{"a", "customer/17", "{customer/17}/cart", "x{a}{b}y", "{}", "a{}b{c}", "{a", "a}b{", "}{ä}", "{{a}}", `\{a`, strings.Repeat("n", 500)} {
		if got := one[string](t, n.store.Pool(), "select taskengine.document_id($1)::text", key); got != task.DocumentID(key).String() {
			t.Errorf("%q has the id %s, want %v", key, got, task.DocumentID(key))
		}
	}
}

//go:build !race

package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// scalars are values of JSON documents.
var scalars = []string{
	`""`, `"a"`, `"a b"`, `"\u001e"`, `"\u001f"`, `"\u001e0\u001e1"`, `"\u00e9"`, `"é日本"`, `"\ud83d\ude00"`, `"\"\\\/\b\f\n\r\t"`, `"%_'"`, `"\u007f"`,
	"0", "-0", "1", "1.0", "1.50", "1e3", "1E+3", "-1.25e-7", "12345678901234567890123", "1e400", "true", "false", "null",
}

// hostile are documents, or parts of them, that a parser may refuse.
var hostile = []string{
	`"\u0000"`, `"\ud800"`, `"\udc00x"`, "\"\xff\"", "\"\x01\"", `01`, `+1`, `.5`, `1.`, `nul`, `"a`, `{`, `[1,`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, ``, ` `, `1 2`, "\ufeff1", `"\x"`, `NaN`,
}

// document returns a random document, often with the members that the limits use.
func document(depth int) string {
	switch n := rand.IntN(20); {
	case n == 0:
		return hostile[rand.IntN(len(hostile))]
	case n < 8 || depth == 0:
		return scalars[rand.IntN(len(scalars))]
	case n == 8:
		return "[" + document(depth-1) + ", " + document(depth-1) + "]"
	}
	var members []string
	for range 1 + rand.IntN(4) { // a name may occur twice
		name := []string{`"a"`, `"b"`, `"\u0062"`, `"A"`, `""`, `"c.d"`, `"é"`}[rand.IntN(7)]
		members = append(members, name+[]string{":", " : ", ":\n\t"}[rand.IntN(3)]+document(depth-1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// A task that is added from SQL gets the group that the engine would give it, or is refused: where the
// engine refuses it, and where PostgreSQL cannot represent a text.
func TestAddGivesTheGroupsOfTheEngine(t *testing.T) {
	url := server.Database(t)
	set := types("t")
	p := set.Types["t"]
	for i, per := range []string{"payload.a", "payload.b", "payload.a.b", "key", "headers.x.y", "payload.é", "ordering_key"} {
		name := fmt.Sprint("limit ", i)
		set.Limits[name] = policy.Limit{Name: name, Max: 1, Per: per}
		p.Limits = append(p.Limits, name)
	}
	set.Types["t"] = p
	n := alone(t, url, set, nil)
	keys := []string{"", "k", "\x1e", "a\x1fb", "\x1e1", "日本"}
	ids := task.NewIDs([32]byte{2})
	taken, refused, different := 0, 0, 0
	for range 4000 {
		r := engine.Request{
			ID: ids.Next(time.Now()), Type: "t", Payload: []byte(document(3)), Key: keys[rand.IntN(len(keys))], OrderingKey: keys[rand.IntN(len(keys))],
			Headers: map[string]string{"x.y": keys[rand.IntN(len(keys))], "x": "no"},
		}
		want, refusal := n.rowBySubmit(r)
		tx, err := n.store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = addRequest(t.Context(), tx, r)
		switch {
		case err != nil && refusal != nil:
			refused++
		case err != nil && mayBeRefused(r.Payload):
			different++
		case err != nil:
			t.Errorf("payload %q is refused: %v", r.Payload, err)
		case refusal != nil:
			t.Errorf("payload %q is taken, and the engine says %v", r.Payload, refusal)
		default:
			taken++
			if got, err := n.store.Attach(tx).Get(t.Context(), r.ID); err != nil || got.Group != want.Group || got.Shard != want.Shard {
				t.Errorf("payload %q: got group %q in shard %d, %v; want %q in %d", r.Payload, got.Group, got.Shard, err, want.Group, want.Shard)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Fatal(err)
		}
	}
	if taken < 500 || refused < 500 || different == 0 {
		t.Errorf("%d were taken, %d refused, and %d by PostgreSQL only: the documents are no good", taken, refused, different)
	}
}

// rowBySubmit returns the row that the engine makes of a request, and removes it.
func (n *node) rowBySubmit(r engine.Request) (row *task.Task, refusal error) {
	n.t.Helper()
	err := n.store.Update(n.t.Context(), func(tx storage.Tx) error {
		if _, refusal = n.SubmitTx(n.t.Context(), tx, r); refusal != nil {
			return refusal
		}
		var err error
		row, err = tx.Get(n.t.Context(), r.ID)
		return errors.Join(err, errDeclined)
	})
	if !errors.Is(err, errDeclined) && !errors.Is(err, engine.ErrInvalid) {
		n.t.Fatal(err)
	}
	return row, refusal
}

// mayBeRefused reports whether a document has a text that PostgreSQL cannot represent.
func mayBeRefused(document []byte) bool {
	return !utf8.Valid(document) || strings.Contains(string(document), `\u0000`) ||
		strings.Contains(string(document), `\ud800`) || strings.Contains(string(document), `\udc00`)
}

// A task that is added as JSON has the group of the document that is stored.
func TestTheGroupOfJSONIsThatOfWhatIsStored(t *testing.T) {
	url := server.Database(t)
	set := types("t")
	set.Limits["a"] = policy.Limit{Name: "a", Max: 1, Per: "payload.a"}
	p := set.Types["t"]
	p.Limits = []string{"a"}
	set.Types["t"] = p
	n := alone(t, url, set, nil)
	for _, value := range scalars {
		if value == "1e400" { // it is written out, and is too long a group
			continue
		}
		id := mustAdd(t, n.store.Pool(), `'t', '{"z": 1, "a": `+strings.ReplaceAll(value, "'", "''")+`}'`).id
		got, err := n.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(got.Payload) {
			t.Errorf("the payload is %q", got.Payload)
		}
		want, refusal := n.rowBySubmit(engine.Request{Type: "t", Payload: got.Payload, ID: task.ID{1}})
		if refusal != nil || got.Group != want.Group {
			t.Errorf("of %s the group is %q, want %q (%v)", value, got.Group, want.Group, refusal)
		}
	}
}

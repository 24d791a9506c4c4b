package enginetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

var (
	searchedTypes    = []string{"mail", "pay", "payout", "m\x00", "näme"}
	searchedErrors   = []string{"answered 503", "answered 404", "POST http://bank/17: Timeout", "no\nroute", `he said "no", twice`, ""}
	searchedPayloads = []string{
		"", "no JSON", "\xff\xfe", `{"customer": {"id": 17, "vip": true}, "tags": ["red", "blue"], "n": null}`, `{"customer": {"id": "17"}, "amount": 1e2}`,
		`{"customer": {"id": 170}, "items": [{"sku": "x1"}, {"sku": "x2"}], "amount": 100.5}`, `[1, 2]`, `17`, `{"a b": {"c": "x"}, "amount": -3}`, `{} {}`, `{"tags": []}`,
	}
	searchedHeaders = []map[string]string{nil, {"tenant": "t7"}, {"tenant": "T8, x", "a.b": "y"}, {"tenant": ""}}
	searchedNodes   = []string{"n1", "n2"}
	searchedStates  = []task.State{task.Waiting, task.Submitted, task.Error, task.Done, task.Failed, task.Cancelled}
)

func pick[T any](r *rand.Rand, some []T) T { return some[r.IntN(len(some))] }

// century is a time at which no test acts.
var century = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// time returns a time near the present one, zero, or one at which no test acts if the engine acts then.
func (s *searches) time(acts bool) time.Time {
	switch {
	case s.rand.IntN(2) == 0:
		return time.Time{}
	case acts:
		return century.Add(time.Duration(s.rand.IntN(100)) * time.Hour)
	}
	return task.Stamp(time.Now().Add(time.Duration(s.rand.IntN(100)-90) * time.Minute))
}

// row returns a random row.
func (s *searches) row() *task.Task {
	created := task.Stamp(time.Now().Add(-time.Duration(s.rand.IntN(100)) * time.Minute))
	t := &task.Task{
		ID: s.ids.Next(created), Version: 1, State: pick(s.rand, searchedStates), Type: pick(s.rand, searchedTypes), Priority: uint8(s.rand.IntN(10)),
		Attempt: uint32(s.rand.IntN(12)), Crashes: uint32(s.rand.IntN(3)), CreatedAt: created, UpdatedAt: created, ReadyAt: created,
		StartedAt: s.time(false), ExpiresAt: s.time(true), NextEventAt: s.time(true), Headers: pick(s.rand, searchedHeaders), Payload: []byte(pick(s.rand, searchedPayloads)),
	}
	if t.Attempt > 0 {
		t.Node = pick(s.rand, searchedNodes)
	}
	if t.State == task.Error || s.rand.IntN(3) == 0 {
		t.LastError = pick(s.rand, searchedErrors)
	}
	if t.State == task.Done {
		t.Result = []byte(pick(s.rand, searchedPayloads))
	}
	if s.rand.IntN(2) == 0 {
		t.Key = fmt.Sprint("key", s.rand.IntN(20))
	}
	if s.rand.IntN(3) == 0 {
		t.Parent = &task.Parent{ID: task.ID{0: 1, 6: 0x70, 8: 0x80, 15: byte(s.rand.IntN(3))}, Name: "page"}
	}
	t.Shard = t.ID.Shard()
	if s.rand.IntN(3) == 0 && slices.Contains([]task.State{task.Waiting, task.Submitted, task.Error}, t.State) {
		t.OrderingKey, t.Turn = fmt.Sprint("order", s.rand.IntN(3)), task.Behind
		t.ID = s.ids.NextIn(created, task.ShardOf(t.OrderingKey))
		t.Shard = t.ID.Shard()
	}
	return t
}

// edit returns a random change of a row.
func (s *searches) edit(t *task.Task) task.Change {
	c := task.Change{Ref: t.Ref(), At: task.Stamp(time.Now()), OrderingKey: t.OrderingKey, NextEventAt: s.time(true)}
	next := slices.DeleteFunc(task.States(), func(to task.State) bool { return to == task.Processing || !t.State.CanBecome(to) })
	switch {
	case (t.State.Live() || t.State == task.Error) && s.rand.IntN(4) == 0:
		c.To, c.Put = task.Waiting, &task.Put{Priority: new(uint8(s.rand.IntN(10)))}
		if t.State == task.Error {
			c.To = task.Error
		}
		if s.rand.IntN(2) == 0 {
			headers := pick(s.rand, searchedHeaders)
			c.Put.Headers = &headers
		}
		c.Payload = new([]byte(pick(s.rand, searchedPayloads)))
	case !t.State.Live() && t.State != task.Error && t.Key != "" && s.rand.IntN(2) == 0:
		if c.To, c.FreesKey = t.State, true; t.State == task.Done && s.rand.IntN(2) == 0 {
			c.FreesKey, c.Remember = false, 100*time.Hour
		}
	case len(next) > 0:
		if c.To = pick(s.rand, next); c.To == task.Error || s.rand.IntN(3) == 0 {
			c.Error = pick(s.rand, searchedErrors)
		}
	default:
		c.To = t.State
	}
	return c
}

// filter returns the text of a random filter. It takes most of its values from one row.
func (s *searches) filter() string {
	known := slices.SortedFunc(maps.Keys(s.rows), task.ID.Compare)
	var terms []string
	for range s.rand.IntN(4) + 1 {
		terms = append(terms, s.term(s.rows[pick(s.rand, known)]))
	}
	return strings.Join(terms, pick(s.rand, []string{" ", " and ", "  "}))
}

// term returns a random term with values of a row.
func (s *searches) term(t *task.Task) string {
	fields := filter.Fields()
	if s.rand.IntN(2) == 0 { // the fields that have an index
		fields = slices.DeleteFunc(fields, func(f filter.Field) bool {
			return !slices.Contains([]string{"state", "type", "id", "key", "error.kind"}, f.Name)
		})
	}
	f := pick(s.rand, fields)
	name := f.Name
	op := pick(s.rand, f.Operators)
	if op == "=" || s.rand.IntN(2) == 0 {
		op = f.Operators[0]
	}
	many := f.Name != "since" && f.Name != "until" && slices.Contains([]string{"=", "!=", "~", "!~"}, op)
	value := func() string { return s.value(f.Name, op, t) }
	switch base, _, part := strings.Cut(f.Name, "."); {
	case base == "header":
		name = "header." + pick(s.rand, []string{"tenant", `"a.b"`, "none"})
	case part && base != "error":
		name = base + "." + pick(s.rand, []string{"customer.id", "customer", "tags", "items.sku", "items.1.sku", "amount", "n", `"a b".c`, "0", "none"})
	}
	values := []string{value()}
	for many && s.rand.IntN(3) == 0 {
		values = append(values, value())
	}
	return name + op + strings.Join(values, ",")
}

// value returns a value for a field, most often that of a row.
func (s *searches) value(field, op string, t *task.Task) string {
	quote := func(text string) string {
		if text == "" && (op != "=" && op != "!=") {
			text = "o"
		}
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	}
	text := func(text string) string {
		if cut := []rune(text); len(cut) > 2 && s.rand.IntN(3) == 0 && op != "=" && op != "!=" {
			return quote(string(cut[1 : len(cut)-1]))
		} else if len(cut) > 2 && s.rand.IntN(3) == 0 && !strings.ContainsAny(text, " ,\"\x00\n") {
			return string(cut[:2]) + "*"
		}
		return quote(text)
	}
	stamp := func(at time.Time) string {
		if at.IsZero() {
			at = t.CreatedAt
		}
		return at.Format(time.RFC3339Nano)
	}
	switch field {
	case "state":
		return pick(s.rand, append(task.States(), t.State, t.State, task.Error)).String()
	case "type":
		return text(t.Type)
	case "id":
		return t.ID.String()
	case "key":
		return text(t.Key)
	case "ordering_key":
		return text(t.OrderingKey)
	case "error":
		return text(t.LastError)
	case "error.kind":
		return task.KindOfError(pick(s.rand, append(searchedErrors[:len(searchedErrors)-1:len(searchedErrors)-1], t.LastError))).String()[:pick(s.rand, []int{4, 10, 16})]
	case "priority":
		return fmt.Sprint(t.Priority)
	case "attempt":
		return fmt.Sprint(t.Attempt)
	case "crashes":
		return fmt.Sprint(t.Crashes)
	case "node":
		return text(t.Node)
	case "parent":
		if t.Parent == nil {
			return ""
		}
		return t.Parent.ID.String()
	case "since", "until":
		return pick(s.rand, []string{"30m", "1h", stamp(t.UpdatedAt)})
	case "age":
		return pick(s.rand, []string{"30m", "90s", "1h"})
	case "created", "updated", "ready", "started", "next", "expires":
		return stamp(map[string]time.Time{"created": t.CreatedAt, "updated": t.UpdatedAt, "ready": t.ReadyAt, "started": t.StartedAt, "next": t.NextEventAt, "expires": t.ExpiresAt}[field])
	default:
		if strings.HasPrefix(field, "header") {
			return quote(t.Headers["tenant"])
		}
		return pick(s.rand, []string{"17", `"17"`, "100", "1e2", "true", "x1", "x*", "red", `"red"`, quote("")})
	}
}

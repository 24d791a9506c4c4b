package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestTasksAreFoundByTheirEncryptedPayload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := secrets(t, func(p *policy.Type) { p.Retry.Max = 1 }, func(context.Context, *task.Task) ([]byte, error) {
			return nil, errors.New("row 17 is wrong")
		})
		var ids []task.ID
		for _, payload := range []string{`{"customer": 1}`, `{"customer": 2}`, "no JSON"} {
			ids = append(ids, n.submit(engine.Request{Type: "mail", Payload: []byte(payload)}))
		}
		synctest.Wait()
		for _, id := range ids {
			n.expect(id, task.Error)
		}
		f, err := filter.Parse("state=error payload.customer=2 error~row", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		found, err := n.Search(t.Context(), f, task.ID{}, 10)
		if err != nil || len(found.Tasks) != 1 || found.Tasks[0].ID != ids[1] || found.Tasks[0].Payload != nil || !found.Next.IsZero() || found.Read != len(ids) {
			t.Errorf("found %+v, %v", found, err)
		}
	})
}

func TestErrorsAreCountedByTheirKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("mail", func(p *policy.Type) { p.Retry.Max = 1 }), handle("mail", func(_ context.Context, t *task.Task) ([]byte, error) {
			if len(t.Payload) == 0 {
				return nil, nil
			}
			return nil, errors.New(string(t.Payload))
		}), func(*engine.Config) {})
		var ids []task.ID
		for _, text := range []string{"row 17 is wrong", "", "no connection to 10.0.0.1:25", "row 3 is wrong", "row 4 is wrong", "", "answered 503"} {
			ids = append(ids, n.submit(engine.Request{Type: "mail", Payload: []byte(text)}))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		all, err := n.Errors(t.Context(), filter.Filter{}, 2)
		if err != nil || len(all.Kinds) != 2 || all.Tasks != 5 || all.Others != 1 || !all.Complete || all.Read != 0 {
			t.Fatalf("got %+v, %v", all, err)
		}
		rows := all.Kinds[0]
		if rows.Tasks != 3 || rows.Pattern != "row # is wrong" || rows.Sample != ids[4] || rows.Error != "row 4 is wrong (attempt 1 of 1)" || rows.Last.Sub(rows.First) != 4*time.Second || len(rows.Types) != 1 || rows.Types[0] != "mail" {
			t.Errorf("got %+v", rows)
		}
		if last := all.Kinds[1]; last.Pattern != "answered 503" || last.Tasks != 1 {
			t.Errorf("the newest of two kinds with one task is %+v", last)
		}
		for text, want := range map[string]int{"error~row": 3, "error.kind=" + rows.Kind.String()[:8]: 3, "since=3s": 2, "state=done": 0, "state=error state=done": 0, "type=other": 0, "state=error,waiting": 5} {
			f, err := filter.Parse(text, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.Errors(t.Context(), f, 10)
			if err != nil || got.Tasks != want || !got.Complete {
				t.Errorf("%s: got %+v, %v, not %d tasks", text, got, err, want)
			}
			if text == "error~row" && (got.Read != 7 || got.Total != 0 || got.Index != "") {
				t.Errorf("%s: %d rows of %d were read by the index %q", text, got.Read, got.Total, got.Index)
			}
		}
		f, err := filter.Parse("payload.a=1", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Errors(t.Context(), f, 10); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("by a payload: %v", err)
		}
	})
}

func TestTasksAreCountedByAFilter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("mail", func(p *policy.Type) { p.Retry.Max = 1 }), handle("mail", func(_ context.Context, t *task.Task) ([]byte, error) {
			if len(t.Payload) == 0 {
				return nil, nil
			}
			return nil, errors.New(string(t.Payload))
		}), func(*engine.Config) {})
		for _, text := range []string{"row 17 is wrong", "", "answered 503", "row 3 is wrong"} {
			n.submit(engine.Request{Type: "mail", Payload: []byte(text)})
		}
		synctest.Wait()
		kind := "error.kind=" + task.KindOfError("row 1 is wrong").String()
		for text, want := range map[string]struct {
			errors, done, read, total int64
			index                     string
		}{
			"":                       {3, 1, 4, 4, ""},
			"type=mail state=error":  {3, 0, 3, 0, "state"},
			"type=mail state!=error": {0, 1, 1, 0, ""},
			"state=error " + kind:    {2, 0, 0, 0, "error.kind"},
			"type=ma* " + kind:       {2, 0, 4, 0, ""},
			"state=done attempt=1":   {0, 1, 4, 0, ""},
			"state=done state=error": {0, 0, 0, 0, ""},
		} {
			f, err := filter.Parse(text, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.CountWhere(t.Context(), f)
			if err != nil || got.Partial || int64(got.Read) != want.read || got.Index != want.index || got.Total != want.total {
				t.Errorf("%s: got %+v, %v", text, got, err)
			}
			for state, n := range map[task.State]int64{task.Error: want.errors, task.Done: want.done} {
				if got.Counts[storage.StateType{State: state, Type: "mail"}] != n {
					t.Errorf("%s: got %+v, not %d %v", text, got, n, state)
				}
			}
		}
	})
}

func TestTasksAreFoundByTheirIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("mail", func(*policy.Type) {}), handle("mail", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }), func(*engine.Config) {})
		var ids []task.ID
		for range 6 {
			ids = append(ids, n.submit(engine.Request{Type: "mail", Payload: []byte(`{"a": 1}`)}))
		}
		synctest.Wait()
		gone := task.ID{1}
		text := "state=done payload.a=1 id=" + strings.Join([]string{ids[1].String(), gone.String(), ids[4].String(), ids[2].String()}, ",")
		f, err := filter.Parse(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var found []task.ID
		read := 0
		for before, pages := (task.ID{}), 0; pages == 0 || !before.IsZero(); pages++ {
			page, err := n.Search(t.Context(), f, before, 2)
			if err != nil || page.Index != storage.IndexID && len(page.Tasks) > 0 {
				t.Fatalf("found %+v, %v", page, err)
			}
			for _, one := range page.Tasks {
				found = append(found, one.ID)
			}
			before, read = page.Next, read+page.Read
		}
		if !slices.Equal(found, []task.ID{ids[4], ids[2], ids[1]}) || read != 3 {
			t.Errorf("found %v of %v, and read %d", found, ids, read)
		}
	})
}

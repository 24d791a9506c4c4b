package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/policy"
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

package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

func BenchmarkSubmittingOverGRPC(b *testing.B) {
	for _, size := range []int{1, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			n := newNode(b)
			c := n.client(b)
			req := &taskenginev1.SubmitRequest{}
			for range size {
				req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Type: "idle", Input: &taskenginev1.NewTask_Text{Text: `{"to":"a@example.com"}`}})
			}
			for b.Loop() {
				if _, err := c.Submit(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkObservingATask(b *testing.B) {
	o := server.NewMetrics([]string{"mail"}, server.Build{}).Observer()
	t := &task.Task{Type: "mail", State: task.Done, Attempt: 1, StartedAt: time.Unix(1, 0), UpdatedAt: time.Unix(2, 0), ReadyAt: time.Unix(1, 0)}
	at := time.Unix(2, 0)
	b.ReportAllocs()
	for b.Loop() {
		o.Inserted(at, t)
		o.Started(at, t)
		o.Saved(at, task.Ref{}, t)
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// routes returns the routes of the shop.
func (s *shop) routes(e *engine.Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// An order that is sent twice is one task, because its number is the key.
		answer(w, func() (string, error) {
			receipts, err := e.Submit(r.Context(), engine.Request{Type: "order", Key: r.PathValue("number"), Payload: payload})
			if err != nil {
				return "", err
			}
			return receipts[0].ID.String(), nil
		})
	})
	mux.HandleFunc("POST /orders/{number}/approved", func(w http.ResponseWriter, r *http.Request) {
		// Keep: the approval may come before the order waits for it.
		answer(w, func() (string, error) {
			outcome, _, err := e.Signal(r.Context(), engine.Signal{Type: "order", Key: r.PathValue("number"), Name: "approved", Keep: true})
			return outcome.String(), err
		})
	})
	mux.HandleFunc("GET /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() (string, error) {
			t, err := e.Find(r.Context(), "order", "", r.PathValue("number"))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%v %s%s", t.State, t.Result, t.LastError), nil
		})
	})
	return mux
}

func answer(w http.ResponseWriter, do func() (string, error)) {
	text, err := do()
	switch {
	case errors.Is(err, task.ErrNotFound):
		http.Error(w, "there is no such order", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, text)
	}
}

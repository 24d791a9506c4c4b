package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Signal sends a signal to a task.
func (a *API) Signal(ctx context.Context, req *taskenginev1.SignalRequest) (*taskenginev1.SignalResponse, error) {
	s, err := signalOf(req)
	if err != nil {
		return nil, a.answer(err)
	}
	if s.To.IsZero() {
		err = a.permit(ctx, s.Type)
	} else {
		err = a.permitTasks(ctx, s.To)
	}
	if err != nil {
		return nil, a.answer(err)
	}
	outcome, t, err := a.engine.Signal(ctx, s)
	if errors.Is(err, task.ErrNotFound) && s.To.IsZero() {
		err = fmt.Errorf("no task of type %s has the key %q: %w", s.Type, s.Key, task.ErrNotFound)
	}
	if err != nil {
		return nil, a.answer(err)
	}
	if a.metrics != nil {
		a.metrics.signaled(t.Type, outcome)
	}
	return &taskenginev1.SignalResponse{Outcome: outcome.String(), Task: summaryOf(t)}, nil
}

// signalOf returns the signal of a request.
func signalOf(req *taskenginev1.SignalRequest) (s engine.Signal, err error) {
	s = engine.Signal{
		Type: req.GetType(), OrderingKey: req.GetOrderingKey(), Key: req.GetKey(),
		Name: req.GetName(), Data: req.GetData(), Keep: req.GetKeep(),
	}
	byKey := s.Type != "" || s.Key != "" || s.OrderingKey != ""
	switch {
	case byKey && req.GetId() != "":
		return s, invalid("id and key exclude each other")
	case byKey && (s.Type == "" || s.Key == ""):
		return s, invalid("type and key go together")
	case !byKey:
		if s.To, err = parseID(req.GetId()); err != nil {
			return s, err
		}
	}
	if req.GetRequestId() != "" {
		if s.ID, err = task.ParseID(req.GetRequestId()); err != nil {
			return s, invalid("request_id: %v", err)
		}
	}
	return s, nil
}

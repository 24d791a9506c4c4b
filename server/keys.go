package server

import (
	"cmp"
	"context"
	"fmt"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ListKeys returns a page of ordering keys.
func (a *API) ListKeys(ctx context.Context, req *taskenginev1.ListKeysRequest) (*taskenginev1.ListKeysResponse, error) {
	filter, err := filterOf(req.GetStates(), nil)
	if err == nil {
		err = checkPage(req.GetLimit())
	}
	if err != nil {
		return nil, a.answer(err)
	}
	page, err := a.engine.Keys(ctx, storage.KeyQuery{
		After: req.GetPageToken(), States: filter.States, Behind: req.GetBehind(), Limit: cmp.Or(int(req.GetLimit()), defaultList),
	})
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListKeysResponse{NextPageToken: text(page.Next)}
	for _, k := range page.Keys {
		res.Keys = append(res.Keys, &taskenginev1.OrderingKey{
			Key: text(k.Key), Head: headOf(k.Head), Behind: int64(k.Behind), BehindTruncated: k.More, OldestReadyAt: stamp(k.Oldest),
		})
	}
	return res, nil
}

// checkPage checks the limit of a page.
func checkPage(limit uint32) error {
	if limit > MaxList {
		return invalid("limit is %d, of %d allowed", limit, MaxList)
	}
	return nil
}

// headOf returns the message of a head, which may be nil.
func headOf(t *task.Task) *taskenginev1.Task {
	if t == nil {
		return nil
	}
	return summaryOf(t)
}

// GetKey returns the tasks of an ordering key.
func (a *API) GetKey(ctx context.Context, req *taskenginev1.GetKeyRequest) (*taskenginev1.GetKeyResponse, error) {
	after, err := seatOf(req.GetPageToken())
	if err == nil {
		err = checkPage(req.GetLimit())
	}
	if err != nil {
		return nil, a.answer(err)
	}
	rows, err := a.engine.Key(ctx, req.GetKey(), after, cmp.Or(int(req.GetLimit()), defaultList))
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.GetKeyResponse{Head: headOf(rows.Head), Behind: summariesOf(rows.Behind)}
	if n := len(rows.Behind); rows.More && n > 0 {
		seat := rows.Behind[n-1].Seat()
		res.NextPageToken = fmt.Sprintf("%d.%d", seat.ReadyAt, seat.Seq)
	}
	return res, nil
}

// seatOf reads a page token of GetKey; nil for the first page.
func seatOf(token string) (*task.Seat, error) {
	if token == "" {
		return nil, nil
	}
	var s task.Seat
	if n, err := fmt.Sscanf(token, "%d.%d", &s.ReadyAt, &s.Seq); err != nil || n != 2 {
		return nil, invalid("page_token is not one of an earlier response")
	}
	return &s, nil
}

// ResumeKey resumes the head of an ordering key that is an error.
func (a *API) ResumeKey(ctx context.Context, req *taskenginev1.ResumeKeyRequest) (*taskenginev1.ResumeKeyResponse, error) {
	t, err := a.engine.ResumeKey(ctx, req.GetKey())
	if err != nil {
		return nil, a.answer(err)
	}
	return &taskenginev1.ResumeKeyResponse{Task: a.edited(t)}, nil
}

// SkipKey fails the head of an ordering key that is an error.
func (a *API) SkipKey(ctx context.Context, req *taskenginev1.SkipKeyRequest) (*taskenginev1.SkipKeyResponse, error) {
	t, err := a.engine.SkipKey(ctx, req.GetKey(), errorOf(ctx, req.GetReason()))
	if err != nil {
		return nil, a.answer(err)
	}
	return &taskenginev1.SkipKeyResponse{Task: a.edited(t)}, nil
}

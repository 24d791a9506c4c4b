package server

import (
	"cmp"
	"context"
	"errors"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// GetDocument returns a document.
func (a *API) GetDocument(ctx context.Context, req *taskenginev1.GetDocumentRequest) (*taskenginev1.GetDocumentResponse, error) {
	d, err := a.engine.Document(ctx, req.GetKey())
	if err != nil {
		return nil, a.answer(err)
	}
	m := documentOf(d)
	m.Data = d.Data
	return &taskenginev1.GetDocumentResponse{Document: m}, nil
}

// ListDocuments returns a page of documents.
func (a *API) ListDocuments(ctx context.Context, req *taskenginev1.ListDocumentsRequest) (*taskenginev1.ListDocumentsResponse, error) {
	if err := checkPage(req.GetLimit()); err != nil {
		return nil, a.answer(err)
	}
	page, next, err := a.engine.Documents(ctx, req.GetPrefix(), req.GetPageToken(), cmp.Or(int(req.GetLimit()), defaultList))
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListDocumentsResponse{NextPageToken: text(next)}
	for _, d := range page {
		res.Documents = append(res.Documents, documentOf(d))
	}
	return res, nil
}

// SetDocument writes a document.
func (a *API) SetDocument(ctx context.Context, req *taskenginev1.SetDocumentRequest) (*taskenginev1.SetDocumentResponse, error) {
	expires, err := timeOf("expires_at", req.GetExpiresAt())
	if err != nil {
		return nil, a.answer(err)
	}
	w := task.DocumentWrite{Key: req.GetKey(), Data: req.GetData(), Replaces: req.IfVersion, ExpiresAt: expires}
	if err := a.engine.WriteDocuments(ctx, w); err != nil {
		return nil, a.documentError(err)
	}
	d, err := a.engine.Document(ctx, w.Key)
	if err != nil {
		return nil, a.answer(err)
	}
	a.log.Info("a document was set", "key", w.Key, "version", d.Version, "bytes", len(w.Data), "by", byOf(ctx, req.GetBy()))
	return &taskenginev1.SetDocumentResponse{Document: documentOf(d)}, nil
}

// DeleteDocument removes a document.
func (a *API) DeleteDocument(ctx context.Context, req *taskenginev1.DeleteDocumentRequest) (*taskenginev1.DeleteDocumentResponse, error) {
	if _, err := a.engine.Document(ctx, req.GetKey()); err != nil {
		return nil, a.answer(err)
	}
	if err := a.engine.WriteDocuments(ctx, task.DocumentWrite{Key: req.GetKey(), Delete: true, Replaces: req.IfVersion}); err != nil {
		return nil, a.documentError(err)
	}
	a.log.Info("a document was deleted", "key", req.GetKey(), "by", byOf(ctx, req.GetBy()))
	return &taskenginev1.DeleteDocumentResponse{}, nil
}

// documentError converts an error of a write of a document.
func (a *API) documentError(err error) error {
	var conflict *task.DocumentConflict
	if errors.As(err, &conflict) {
		return connect.NewError(connect.CodeAborted, err)
	}
	return a.answer(err)
}

// documentOf returns the message of a document, without its data.
func documentOf(d *task.Document) *taskenginev1.Document {
	return &taskenginev1.Document{
		Key: text(d.Key), Size: uint32(len(d.Data)), Version: d.Version,
		CreatedAt: stamp(d.CreatedAt), UpdatedAt: stamp(d.UpdatedAt), ExpiresAt: stamp(d.ExpiresAt),
	}
}

package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Document is a small state that tasks share.
type Document struct {
	Key       string
	Data      []byte // missing in lists
	Size      uint32 // of the data, in bytes; 0 if it cannot be decoded
	Version   uint64 // another one, and a greater one, after each write
	CreatedAt time.Time
	UpdatedAt time.Time
	ExpiresAt time.Time // from when on it does not exist; zero is never
}

// DocumentWrite is a write of a document.
type DocumentWrite struct {
	Data []byte // at most 256 KiB

	// IfVersion restricts the write to a document of this version; 0 is that there is none. If the document has another one, nothing is
	// written, and the error wraps [ErrConflict]. nil: any version.
	IfVersion *uint64

	ExpiresAt time.Time // see [Document]
	By        string    // the author; written to the log of the node
}

// DocumentDelete says which version of a document is deleted.
type DocumentDelete struct {
	IfVersion *uint64 // as in [DocumentWrite]
	By        string  // the author; written to the log of the node
}

// Document returns a document. The error wraps [ErrNotFound] if there is none.
func (c *Client) Document(ctx context.Context, key string) (*Document, error) {
	res, err := call[taskenginev1.GetDocumentResponse](ctx, c, taskenginev1connect.TaskServiceGetDocumentProcedure, &taskenginev1.GetDocumentRequest{Key: key}, true)
	if err != nil {
		return nil, err
	}
	return documentOf(res.GetDocument()), nil
}

// Documents returns a page of the documents that have keys with a prefix, without their data, in the order of their keys. after is "" for
// the first page, and then next of the page before. next is "" at the end. A limit of 0 is 100.
func (c *Client) Documents(ctx context.Context, prefix, after string, limit int) (page []*Document, next string, err error) {
	req := &taskenginev1.ListDocumentsRequest{Prefix: prefix, PageToken: after, Limit: uint32(limit)}
	res, err := call[taskenginev1.ListDocumentsResponse](ctx, c, taskenginev1connect.TaskServiceListDocumentsProcedure, req, true)
	if err != nil {
		return nil, "", err
	}
	return all(res.GetDocuments(), documentOf), res.GetNextPageToken(), nil
}

// SetDocument writes a document, and returns it without its data. A write with IfVersion is not repeated when its answer is lost.
func (c *Client) SetDocument(ctx context.Context, key string, write DocumentWrite) (*Document, error) {
	req := setDocumentMessage(key, &write)
	res, err := call[taskenginev1.SetDocumentResponse](ctx, c, taskenginev1connect.TaskServiceSetDocumentProcedure, req, write.IfVersion == nil)
	if err != nil {
		return nil, err
	}
	return documentOf(res.GetDocument()), nil
}

// DeleteDocument removes a document. The error wraps [ErrNotFound] if there is none.
func (c *Client) DeleteDocument(ctx context.Context, key string, what DocumentDelete) error {
	req := deleteDocumentMessage(key, &what)
	_, err := call[taskenginev1.DeleteDocumentResponse](ctx, c, taskenginev1connect.TaskServiceDeleteDocumentProcedure, req, false)
	return err
}

func documentOf(m *taskenginev1.Document) *Document {
	return &Document{
		Key: m.GetKey(), Data: m.GetData(), Size: m.GetSize(), Version: m.GetVersion(),
		CreatedAt: timeOf(m.GetCreatedAt()), UpdatedAt: timeOf(m.GetUpdatedAt()), ExpiresAt: timeOf(m.GetExpiresAt()),
	}
}

func setDocumentMessage(key string, w *DocumentWrite) *taskenginev1.SetDocumentRequest {
	return &taskenginev1.SetDocumentRequest{Key: key, Data: w.Data, IfVersion: w.IfVersion, ExpiresAt: stamp(w.ExpiresAt), By: w.By}
}

func deleteDocumentMessage(key string, d *DocumentDelete) *taskenginev1.DeleteDocumentRequest {
	return &taskenginev1.DeleteDocumentRequest{Key: key, IfVersion: d.IfVersion, By: d.By}
}

package dashboard

import (
	"context"
	"net/url"
	"time"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// documentsOnPage is how many documents a page of the list has.
const documentsOnPage = 100

func documentsPage() page {
	return page{path: "documents", name: "Documents", key: "d", whole: true, template: "documents", every: 3 * time.Second, load: loadDocuments}
}

// documentList has the values of the page.
type documentList struct {
	Prefix string
	First  bool // this is the first page
	All    []*taskenginev1.Document
	Next   string // the link to the next page; "" at the end
	Slow   bool   // the store has not answered yet
}

func loadDocuments(v *view) (any, error) {
	prefix, after := v.URL.Query().Get("prefix"), v.URL.Query().Get("after")
	v.command = commandLine("document", "list")
	if prefix != "" {
		v.command = commandLine("document", "list", "--prefix", prefix)
	}
	got, err := shared(v, "documents\x00"+prefix+"\x00"+after, queryPatience, func(ctx context.Context) (*taskenginev1.ListDocumentsResponse, error) {
		return v.api().ListDocuments(ctx, &taskenginev1.ListDocumentsRequest{Prefix: prefix, PageToken: after, Limit: documentsOnPage})
	})
	if err != nil {
		return nil, err
	}
	l := &documentList{Prefix: prefix, First: after == "", All: got.Value.GetDocuments(), Slow: got.Value == nil}
	if next := got.Value.GetNextPageToken(); next != "" {
		l.Next = v.d.Base + "documents?prefix=" + url.QueryEscape(prefix) + "&after=" + url.QueryEscape(next)
	}
	return l, nil
}

func documentPage() page {
	return page{path: "document", under: "Documents", whole: true, template: "document", every: 3 * time.Second, load: loadDocument}
}

// documentShown has the values of the page.
type documentShown struct {
	*taskenginev1.Document
	Data document
}

func loadDocument(v *view) (any, error) {
	key := v.URL.Query().Get("key")
	v.title, v.command = "Document "+key, commandLine("document", "get", key)
	got, err := shared(v, "document\x00"+key, pagePatience, func(ctx context.Context) (*taskenginev1.GetDocumentResponse, error) {
		return v.api().GetDocument(ctx, &taskenginev1.GetDocumentRequest{Key: key})
	})
	if err != nil {
		return nil, err
	}
	d := got.Value.GetDocument()
	if d == nil {
		return nil, connect.NewError(connect.CodeDeadlineExceeded, errSlow)
	}
	return &documentShown{d, documentOf("Data", d.GetData())}, nil
}

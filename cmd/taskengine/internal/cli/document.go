package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newDocumentGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get KEY",
		Short: "Write the data of a document",
		Long: `Write the data of a document to standard output, as it is stored. With -o json, the document is
one line with its version and its times.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.GetDocument, &taskenginev1.GetDocumentRequest{Key: args[0]})
				if err != nil {
					return aboutDocument(args[0], err)
				}
				if a.json() {
					return a.printMessage(res.GetDocument())
				}
				_, err = a.stdout.Write(res.GetDocument().GetData())
				return err
			})
		},
	}
}

func newDocumentList(a *app) *cobra.Command {
	var req taskenginev1.ListDocumentsRequest
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List documents by key, without their data",
		Long: `List documents, which tasks share, in the order of their keys: all of them, or those with keys that
begin with --prefix. With -o json, each is one line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return exit.Errorf(exit.Usage, "--limit is %d, and must not be negative", limit)
			}
			return a.with(func(c *client) error { return a.listDocuments(cmd.Context(), c, &req, limit) })
		},
	}
	cmd.Flags().StringVar(&req.Prefix, "prefix", "", "only documents with keys that begin with it")
	cmd.Flags().StringVar(&req.PageToken, "after", "", "only documents after the one with this key")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 is all")
	return cmd
}

// listDocuments shows at most limit of the documents that a request selects; 0 is all.
func (a *app) listDocuments(ctx context.Context, c *client, req *taskenginev1.ListDocumentsRequest, limit int) error {
	req = proto.CloneOf(req) // the next look begins anew
	var rows []*taskenginev1.Document
	for left := limit; ; {
		req.Limit = server.MaxList
		if limit > 0 {
			req.Limit = uint32(min(left, server.MaxList))
		}
		res, err := call(ctx, c, c.ListDocuments, req)
		if err != nil {
			return err
		}
		left -= len(res.GetDocuments())
		if !a.json() {
			rows = append(rows, res.GetDocuments()...)
		} else if err := printMessages(a, res.GetDocuments()); err != nil {
			return err
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
		if limit > 0 && left <= 0 {
			break
		}
	}
	if !a.json() {
		if err := a.showDocumentRows(rows...); err != nil {
			return err
		}
	}
	if req.PageToken != "" {
		a.note("there are more; --after %s shows the next ones", req.PageToken)
	}
	return nil
}

// showDocumentRows writes documents as rows.
func (a *app) showDocumentRows(all ...*taskenginev1.Document) error {
	now := time.Now()
	rows := make([][]string, len(all))
	for i, d := range all {
		rows[i] = []string{d.GetKey(), strconv.FormatUint(d.GetVersion(), 10), strconv.FormatUint(uint64(d.GetSize()), 10), a.moment(d.GetUpdatedAt(), now), a.moment(d.GetExpiresAt(), now)}
	}
	return a.printTable([]string{"KEY", "VERSION", "BYTES", "UPDATED", "EXPIRES"}, rows, "EXPIRES")
}

func newDocumentSet(a *app) *cobra.Command {
	var data string
	var ifVersion uint64
	var expires duration
	cmd := &cobra.Command{
		Use:   "set KEY --data DATA",
		Short: "Write a document, which tasks share",
		Long: `Write a document, which tasks share, and make it if there is none. A task that has read the document
and writes the version that it has read runs again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &taskenginev1.SetDocumentRequest{Key: args[0], By: operator()}
			if cmd.Flags().Changed("if-version") {
				req.IfVersion = &ifVersion
			}
			if cmd.Flags().Changed("expires") {
				req.ExpiresAt = timestamppb.New(time.Now().Add(time.Duration(expires)))
			}
			var err error
			if req.Data, err = readData(data, a.stdin); err != nil {
				return err
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.SetDocument, req)
				switch {
				case err != nil:
					return err
				case a.json():
					return a.printMessage(res.GetDocument())
				}
				return a.showDocumentRows(res.GetDocument())
			})
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "the data: JSON, or @FILE or - for the bytes of a file or of standard input")
	cmd.Flags().Uint64Var(&ifVersion, "if-version", 0, "only if the document has this version; 0 means that there is none")
	cmd.Flags().Var(&expires, "expires", "after which time it does not exist any more, such as 30d (by default never)")
	if err := cmd.MarkFlagRequired("data"); err != nil {
		panic(err) // there is such a flag
	}
	return cmd
}

func newDocumentDelete(a *app) *cobra.Command {
	var ifVersion uint64
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete a document",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &taskenginev1.DeleteDocumentRequest{Key: args[0], By: operator()}
			if cmd.Flags().Changed("if-version") {
				req.IfVersion = &ifVersion
			}
			return a.with(func(c *client) error {
				_, err := call(cmd.Context(), c, c.DeleteDocument, req)
				return aboutDocument(args[0], err)
			})
		},
	}
	cmd.Flags().Uint64Var(&ifVersion, "if-version", 0, "only if the document has this version")
	return cmd
}

// aboutDocument replaces the error of a node that has no document of a key.
func aboutDocument(key string, err error) error {
	if exit.Code(err) != exit.NotFound {
		return err
	}
	return exit.Errorf(exit.NotFound, "there is no document with the key %.80q", key)
}

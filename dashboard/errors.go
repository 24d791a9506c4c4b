package dashboard

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// kindsOnPage is how many kinds of errors are shown.
const kindsOnPage = 100

func errorsPage() page {
	return page{path: "errors", name: "Errors", key: "e", template: "errors", every: 3 * time.Second, load: loadErrors}
}

// errorKinds has the values of the page.
type errorKinds struct {
	Query   string
	Problem string                           // why the query was refused
	Found   *taskenginev1.ListErrorsResponse // nil: not known yet
	At      *timestamppb.Timestamp
	Terms   string // of the filter, before that of a kind
	MayRun  bool   // the person may run tasks again
}

func loadErrors(v *view) (any, error) {
	query := strings.TrimSpace(v.URL.Query().Get("q"))
	e := &errorKinds{Query: query, MayRun: v.may(access.Manage), Terms: "state=error "}
	v.command = commandLine("errors")
	if query != "" {
		v.command = commandLine("errors", "--where", query)
		e.Terms = query + " "
		if !strings.Contains(query, "state=") {
			e.Terms = "state=error " + e.Terms
		}
	}
	types, err := v.types()
	if err != nil {
		return nil, err
	}
	got, err := shared(v, "errors\x00"+query, queryPatience, func(ctx context.Context) (*taskenginev1.ListErrorsResponse, error) {
		return v.api().ListErrors(ctx, &taskenginev1.ListErrorsRequest{Types: types, Where: query, Limit: kindsOnPage})
	})
	if code := connect.CodeOf(err); err != nil && (code == connect.CodeInvalidArgument || code == connect.CodePermissionDenied) {
		e.Problem = errorText(err)
		return e, nil
	}
	if e.Found = got.Value; e.Found != nil {
		e.At = timestamppb.New(got.At)
	}
	return e, err
}

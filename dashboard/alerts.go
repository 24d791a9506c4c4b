package dashboard

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func alertsPage() page {
	return page{path: "alerts", name: "Alerts", key: "a", whole: true, template: "alerts", every: 3 * time.Second, load: loadAlerts}
}

// alertList has the values of the page.
type alertList struct {
	*taskenginev1.ListAlertsResponse
	None string // why there are no alerts at all
	May  bool   // the person may silence them
}

func loadAlerts(v *view) (any, error) {
	v.command = commandLine("alert", "list")
	got, err := shared(v, "alerts", queryPatience, func(ctx context.Context) (*taskenginev1.ListAlertsResponse, error) {
		return v.api().ListAlerts(ctx, &taskenginev1.ListAlertsRequest{})
	})
	if connect.CodeOf(err) == connect.CodeFailedPrecondition && err != nil {
		return &alertList{None: errorText(err)}, nil
	}
	return &alertList{ListAlertsResponse: got.Value, May: v.may(access.Manage)}, err
}

func alertActions() []action {
	return []action{
		{"alerts/silence", silence},
		{"alerts/unsilence", func(v *view) (string, error) {
			_, err := v.api().UnsilenceAlerts(v.ctx, &taskenginev1.UnsilenceAlertsRequest{Id: v.PostFormValue("id")})
			return "alerts", err
		}},
	}
}

// silence silences the alerts of one rule with the labels of a form, which are fields with the name label.NAME.
func silence(v *view) (string, error) {
	length, err := units.ParseDuration(strings.TrimSpace(v.PostFormValue("for")))
	if err != nil {
		return "", invalid("silence for: %w", err)
	}
	req := &taskenginev1.SilenceAlertsRequest{Rule: v.PostFormValue("rule"), For: durationpb.New(length), Comment: v.PostFormValue("comment")}
	for name := range v.PostForm {
		if label, ok := strings.CutPrefix(name, "label."); ok {
			if req.Labels == nil {
				req.Labels = make(map[string]string)
			}
			req.Labels[label] = v.PostFormValue(name)
		}
	}
	_, err = v.api().SilenceAlerts(v.ctx, req)
	return "alerts", err
}

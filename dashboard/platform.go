package dashboard

import (
	"context"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func platformPage() page {
	return page{path: "slices/{name}/{platform}", under: "Sources", whole: true, template: "platform", every: 2 * time.Second, load: loadPlatform}
}

// platformShown has the values of the page of one platform.
type platformShown struct {
	*taskenginev1.Platform
	May bool // the person may give orders
}

// At returns a time as a form takes it.
func (platformShown) At(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339Nano)
}

func loadPlatform(v *view) (any, error) {
	source, name := v.PathValue("name"), v.PathValue("platform")
	v.title, v.command = "Platform "+source+"/"+name, commandLine("source", "show", source+"/"+name)
	got, err := shared(v, "platform\x00"+source+"\x00"+name, pagePatience, func(ctx context.Context) (*taskenginev1.GetPlatformResponse, error) {
		return v.api().GetPlatform(ctx, &taskenginev1.GetPlatformRequest{Source: source, Platform: name})
	})
	if err != nil {
		return nil, err
	}
	return &platformShown{got.Value.GetPlatform(), v.may(access.Manage)}, nil
}

func platformActions() []action {
	return []action{
		{"slices/{name}/{platform}/pause", func(v *view) (string, error) {
			_, err := v.api().PauseSlices(v.ctx, &taskenginev1.PauseSlicesRequest{Source: v.PathValue("name"), Platform: v.PathValue("platform"), Reason: v.PostFormValue("reason")})
			return platformPath(v), err
		}},
		{"slices/{name}/{platform}/resume", func(v *view) (string, error) {
			_, err := v.api().ResumeSlices(v.ctx, &taskenginev1.ResumeSlicesRequest{Source: v.PathValue("name"), Platform: v.PathValue("platform")})
			return platformPath(v), err
		}},
		{"slices/{name}/{platform}/retry", func(v *view) (string, error) {
			_, err := v.api().RetrySlices(v.ctx, &taskenginev1.RetrySlicesRequest{Source: v.PathValue("name"), Platform: v.PathValue("platform")})
			return platformPath(v), err
		}},
		{"slices/{name}/{platform}/reset", resetPlatform},
	}
}

// platformPath returns the page of the platform that a form is about.
func platformPath(v *view) string {
	return "slices/" + url.PathEscape(v.PathValue("name")) + "/" + url.PathEscape(v.PathValue("platform"))
}

// resetPlatform moves the cursor of a platform, if it is where the person saw it.
func resetPlatform(v *view) (string, error) {
	req := &taskenginev1.ResetPlatformRequest{Source: v.PathValue("name"), Platform: v.PathValue("platform"), Reason: v.PostFormValue("reason")}
	var err error
	if req.To, err = timeOf(v.PostFormValue("to")); err != nil {
		return "", err
	}
	if from := v.PostFormValue("from"); from != "" {
		if req.From, err = timeOf(from); err != nil {
			return "", err
		}
	}
	_, err = v.api().ResetPlatform(v.ctx, req)
	return platformPath(v), err
}

// timeOf reads a time of a form.
func timeOf(text string) (*timestamppb.Timestamp, error) {
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(text))
	if err != nil {
		return nil, invalid("%.40q is no time such as 2026-12-24T18:00:00Z", text)
	}
	return timestamppb.New(at), nil
}

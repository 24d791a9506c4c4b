package dashboard

import (
	"context"
	"net/url"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// platformsOnPage is how many platforms are shown.
const platformsOnPage = 100

func sourcesPage() page {
	return page{path: "sources", name: "Sources", key: "u", whole: true, template: "sources", every: 3 * time.Second, load: loadSources}
}

// sourceList has the values of the page.
type sourceList struct {
	Topics []*taskenginev1.Source
	Slices []*taskenginev1.SliceSource
}

func loadSources(v *view) (any, error) {
	v.command = commandLine("source", "list")
	topics, err := shared(v, "sources", queryPatience, func(ctx context.Context) (*taskenginev1.ListSourcesResponse, error) {
		return v.api().ListSources(ctx, &taskenginev1.ListSourcesRequest{})
	})
	if err != nil {
		return nil, err
	}
	slices, err := shared(v, "slices", queryPatience, func(ctx context.Context) (*taskenginev1.ListSliceSourcesResponse, error) {
		return v.api().ListSliceSources(ctx, &taskenginev1.ListSliceSourcesRequest{})
	})
	return &sourceList{topics.Value.GetSources(), slices.Value.GetSources()}, err
}

func topicPage() page {
	return page{path: "source/{name}", under: "Sources", whole: true, template: "topic", every: 3 * time.Second, load: loadTopic}
}

// topicShown has the values of the page of a source of topics.
type topicShown struct {
	*taskenginev1.Source
	May bool // the person may pause it
}

func loadTopic(v *view) (any, error) {
	name := v.PathValue("name")
	v.title, v.command = "Source "+name, commandLine("source", "show", name)
	got, err := shared(v, "source\x00"+name, pagePatience, func(ctx context.Context) (*taskenginev1.GetSourceResponse, error) {
		return v.api().GetSource(ctx, &taskenginev1.GetSourceRequest{Name: name})
	})
	return topicShown{got.Value.GetSource(), v.may(access.Manage)}, err
}

func platformsPage() page {
	return page{path: "slices/{name}", under: "Sources", whole: true, template: "platforms", every: 3 * time.Second, load: loadPlatforms}
}

// platformList has the values of the page of a source of time slices.
type platformList struct {
	*taskenginev1.SliceSource
	Prefix    string
	Platforms []*taskenginev1.Platform
	More      string // the link to the next page; "" at the end
	May       bool   // the person may pause it
}

func loadPlatforms(v *view) (any, error) {
	name, form := v.PathValue("name"), v.URL.Query()
	v.title, v.command = "Source "+name, commandLine("source", "show", name)
	source, err := shared(v, "slice\x00"+name, pagePatience, func(ctx context.Context) (*taskenginev1.GetSliceSourceResponse, error) {
		return v.api().GetSliceSource(ctx, &taskenginev1.GetSliceSourceRequest{Name: name})
	})
	if err != nil {
		return nil, err
	}
	p := &platformList{SliceSource: source.Value.GetSource(), Prefix: form.Get("prefix"), May: v.may(access.Manage)}
	after := form.Get("after")
	got, err := shared(v, "platforms\x00"+name+"\x00"+p.Prefix+"\x00"+after, pagePatience, func(ctx context.Context) (*taskenginev1.ListPlatformsResponse, error) {
		return v.api().ListPlatforms(ctx, &taskenginev1.ListPlatformsRequest{Source: name, Prefix: p.Prefix, Limit: platformsOnPage, PageToken: after})
	})
	p.Platforms = got.Value.GetPlatforms()
	if next := got.Value.GetNextPageToken(); next != "" {
		p.More = v.d.Base + "slices/" + url.PathEscape(name) + "?prefix=" + url.QueryEscape(p.Prefix) + "&after=" + url.QueryEscape(next)
	}
	return p, err
}

func sourceActions() []action {
	name := func(v *view) string { return v.PathValue("name") }
	return []action{
		{"source/{name}/pause", func(v *view) (string, error) {
			_, err := v.api().PauseSource(v.ctx, &taskenginev1.PauseSourceRequest{Name: name(v), Reason: v.PostFormValue("reason")})
			return "source/" + url.PathEscape(name(v)), err
		}},
		{"source/{name}/resume", func(v *view) (string, error) {
			_, err := v.api().ResumeSource(v.ctx, &taskenginev1.ResumeSourceRequest{Name: name(v)})
			return "source/" + url.PathEscape(name(v)), err
		}},
		{"slices/{name}/pause", func(v *view) (string, error) {
			_, err := v.api().PauseSlices(v.ctx, &taskenginev1.PauseSlicesRequest{Source: name(v), Platform: v.PostFormValue("platform"), Reason: v.PostFormValue("reason")})
			return "slices/" + url.PathEscape(name(v)), err
		}},
		{"slices/{name}/resume", func(v *view) (string, error) {
			_, err := v.api().ResumeSlices(v.ctx, &taskenginev1.ResumeSlicesRequest{Source: name(v), Platform: v.PostFormValue("platform")})
			return "slices/" + url.PathEscape(name(v)), err
		}},
		{"slices/{name}/retry", func(v *view) (string, error) {
			_, err := v.api().RetrySlices(v.ctx, &taskenginev1.RetrySlicesRequest{Source: name(v), Platform: v.PostFormValue("platform")})
			return "slices/" + url.PathEscape(name(v)), err
		}},
	}
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/internal/suggest"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

const maxSliceValue = 100 // bytes of the text of a value

// sourceNames returns the names of the sources of the node, of both kinds.
func (a *API) sourceNames() (names []string) {
	if a.sources != nil {
		names = a.sources.Names()
	}
	if a.slices != nil {
		names = append(names, a.slices.Names()...)
	}
	return names
}

// hasSlices reports whether the node has a source of time slices with a name.
func (a *API) hasSlices(name string) bool {
	return a.slices != nil && slices.Contains(a.slices.Names(), name)
}

// checkSlices returns an error unless the node has a source of time slices with a name.
func (a *API) checkSlices(name string) error {
	switch {
	case a.hasSlices(name):
		return nil
	case slices.Contains(a.sourceNames(), name):
		return a.answer(fmt.Errorf("%w of time slices: %.200q is a source that reads topics, and has no platforms", ErrNoSource, text(name)))
	}
	return a.noSource(name)
}

// answerSlices converts an error of a request about a platform, or about a source if it is "".
func (a *API) answerSlices(ctx context.Context, source, platform string, err error) error {
	if err == nil || platform == "" || !errors.Is(err, slicer.ErrUnknown) {
		return a.answer(err)
	}
	advice := "taskengine source add adds it"
	if names, failed := a.slices.Platforms(ctx, a.engine, source); failed == nil {
		if near := suggest.Nearest(platform, names); near != "" {
			advice = "did you mean " + text(near) + "?"
		}
	}
	return a.answer(fmt.Errorf("%w: %.200q has no platform %.200q; %s", slicer.ErrUnknown, text(source), text(platform), advice))
}

// ListSliceSources returns the sources of time slices with the sums of their platforms.
func (a *API) ListSliceSources(ctx context.Context, _ *taskenginev1.ListSliceSourcesRequest) (*taskenginev1.ListSliceSourcesResponse, error) {
	res := &taskenginev1.ListSliceSourcesResponse{}
	if a.slices == nil {
		return res, nil
	}
	for _, name := range a.slices.Names() {
		m, err := a.sliceSource(ctx, name)
		if err != nil {
			return nil, err
		}
		m.Values, m.History = nil, nil
		res.Sources = append(res.Sources, m)
	}
	return res, nil
}

// GetSliceSource returns one source of time slices.
func (a *API) GetSliceSource(ctx context.Context, req *taskenginev1.GetSliceSourceRequest) (*taskenginev1.GetSliceSourceResponse, error) {
	if err := a.checkSlices(req.GetName()); err != nil {
		return nil, err
	}
	m, err := a.sliceSource(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.GetSliceSourceResponse{Source: m}, nil
}

// sliceSource returns the message of a source of time slices.
func (a *API) sliceSource(ctx context.Context, name string) (*taskenginev1.SliceSource, error) {
	s, err := a.slices.Source(ctx, a.engine, name)
	if err != nil {
		return nil, a.answer(err)
	}
	m := sliceSourceOf(name, s)
	m.OnlyOn = a.onlyOn("")
	now := a.engine.Now()
	err = a.slices.List(ctx, a.engine, name, func(one *slicer.Status) error {
		addPlatform(m, platformOf(one, &s.State, now))
		return nil
	})
	if err != nil {
		return nil, a.answer(err)
	}
	return m, nil
}

// onlyOn returns the name of this node if an order reaches only the platforms in its own store, else "". The name "" is all platforms.
func (a *API) onlyOn(platform string) string {
	if _, share := a.engine.Peers(); share && platform == "" {
		return a.engine.Name()
	}
	return ""
}

// ListPlatforms returns a page of the platforms of a source.
func (a *API) ListPlatforms(ctx context.Context, req *taskenginev1.ListPlatformsRequest) (*taskenginev1.ListPlatformsResponse, error) {
	if err := a.checkSlices(req.GetSource()); err != nil {
		return nil, err
	}
	if req.GetLimit() > MaxList {
		return nil, a.answer(invalid("limit is %d, of %d allowed", req.GetLimit(), MaxList))
	}
	names, err := a.slices.Platforms(ctx, a.engine, req.GetSource())
	if err != nil {
		return nil, a.answer(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return name <= req.GetPageToken() || !strings.HasPrefix(name, req.GetPrefix())
	})
	res := &taskenginev1.ListPlatformsResponse{}
	if limit := cmp.Or(int(req.GetLimit()), defaultList); len(names) > limit {
		names = names[:limit]
		res.NextPageToken = names[limit-1]
	}
	of, err := a.slices.Source(ctx, a.engine, req.GetSource())
	if err != nil {
		return nil, a.answer(err)
	}
	all, err := a.slices.Read(ctx, a.engine, req.GetSource(), names...)
	if err != nil {
		return nil, a.answer(err)
	}
	now := a.engine.Now()
	for _, one := range all {
		res.Platforms = append(res.Platforms, platformOf(one, &of.State, now))
	}
	return res, nil
}

// GetPlatform returns one platform.
func (a *API) GetPlatform(ctx context.Context, req *taskenginev1.GetPlatformRequest) (*taskenginev1.GetPlatformResponse, error) {
	if err := a.checkSlices(req.GetSource()); err != nil {
		return nil, err
	}
	m, err := a.platform(ctx, req.GetSource(), req.GetPlatform())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.GetPlatformResponse{Platform: m}, nil
}

// platform returns the message of a platform.
func (a *API) platform(ctx context.Context, source, name string) (*taskenginev1.Platform, error) {
	if err := timeslice.CheckName(name); err != nil {
		return nil, a.answer(err)
	}
	one, err := a.slices.Get(ctx, a.engine, timeslice.Platform{Source: source, Name: name})
	if err != nil {
		return nil, a.answerSlices(ctx, source, name, err)
	}
	of, err := a.slices.Source(ctx, a.engine, source)
	if err != nil {
		return nil, a.answer(err)
	}
	m := platformOf(one, &of.State, a.engine.Now())
	detailPlatform(m, one)
	return m, nil
}

// sliceOrder is the part that the requests have in common that give an order to a source or to a platform.
type sliceOrder interface {
	GetSource() string
	GetPlatform() string
	GetBy() string
	GetReason() string
}

// sliceBy returns who gives an order, and why.
func sliceBy(ctx context.Context, req interface {
	GetBy() string
	GetReason() string
},
) (slicer.By, error) {
	by := slicer.By{Who: byOf(ctx, req.GetBy()), Reason: req.GetReason()}
	switch {
	case len(by.Who) > maxBy:
		return by, invalid("by has %d bytes, of %d allowed", len(by.Who), maxBy)
	case len(by.Reason) > maxReason:
		return by, invalid("reason has %d bytes, of %d allowed", len(by.Reason), maxReason)
	}
	return by, nil
}

// orderSlices calls do, which gives an order, and returns the platform afterwards; nil if the order is for a source. verb is for
// the log.
func (a *API) orderSlices(ctx context.Context, verb string, req sliceOrder, do func(p timeslice.Platform, by slicer.By) error) (*taskenginev1.Platform, error) {
	if err := a.checkSlices(req.GetSource()); err != nil {
		return nil, err
	}
	by, err := sliceBy(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	p := timeslice.Platform{Source: req.GetSource(), Name: req.GetPlatform()}
	prefix := ""
	if of, ok := req.(interface{ GetPrefix() string }); ok {
		prefix = of.GetPrefix()
	}
	if prefix != "" && p.Name != "" {
		return nil, a.answer(invalid("platform and prefix exclude each other"))
	}
	if p.Name != "" {
		if err := timeslice.CheckName(p.Name); err != nil {
			return nil, a.answer(err)
		}
	}
	if err := do(p, by); err != nil {
		return nil, a.answerSlices(ctx, p.Source, p.Name, err)
	}
	a.log.Info("an order for time slices was given", "verb", verb, "source", p.Source, "platform", p.Name, "by", by.Who, "reason", by.Reason, "prefix", prefix)
	if p.Name == "" {
		return nil, nil
	}
	return a.platform(ctx, p.Source, p.Name)
}

// orderPlatform is orderSlices for an order that only a platform can have.
func (a *API) orderPlatform(ctx context.Context, verb string, req sliceOrder, do func(p timeslice.Platform, by slicer.By) error) (*taskenginev1.Platform, error) {
	return a.orderSlices(ctx, verb, req, func(p timeslice.Platform, by slicer.By) error {
		if p.Name == "" {
			return invalid("platform is missing")
		}
		return do(p, by)
	})
}

// SetSlices sets values of a source or of a platform.
func (a *API) SetSlices(ctx context.Context, req *taskenginev1.SetSlicesRequest) (*taskenginev1.SetSlicesResponse, error) {
	m, err := a.orderSlices(ctx, "set", req, func(p timeslice.Platform, by slicer.By) error {
		if len(req.GetValues()) == 0 {
			return invalid("values are missing")
		}
		if err := checkSliceValues(req.GetValues()); err != nil {
			return err
		}
		if p.Name == "" {
			return a.slices.SetSource(ctx, a.engine, p.Source, req.GetValues(), by)
		}
		return a.slices.Set(ctx, a.engine, p, req.GetValues(), by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.SetSlicesResponse{Platform: m, OnlyOn: a.onlyOn(req.GetPlatform())}, nil
}

func checkSliceValues(values map[string]string) error {
	for name, value := range values {
		if len(value) > maxSliceValue {
			return invalid("the value of %.80q has %d bytes, of %d allowed", name, len(value), maxSliceValue)
		}
	}
	return nil
}

// AddPlatform adds a platform to a source.
func (a *API) AddPlatform(ctx context.Context, req *taskenginev1.AddPlatformRequest) (*taskenginev1.AddPlatformResponse, error) {
	m, err := a.orderPlatform(ctx, "add", req, func(p timeslice.Platform, by slicer.By) error {
		if err := checkSliceValues(req.GetValues()); err != nil {
			return err
		}
		return a.slices.Add(ctx, a.engine, p, req.GetValues(), by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.AddPlatformResponse{Platform: m}, nil
}

// RemovePlatform stops a platform from making slices, until it is added again.
func (a *API) RemovePlatform(ctx context.Context, req *taskenginev1.RemovePlatformRequest) (*taskenginev1.RemovePlatformResponse, error) {
	m, err := a.orderPlatform(ctx, "remove", req, func(p timeslice.Platform, by slicer.By) error {
		return a.slices.Remove(ctx, a.engine, p, by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.RemovePlatformResponse{Platform: m}, nil
}

// PauseSlices stops a platform, or all platforms of a source or those with a prefix, from making slices.
func (a *API) PauseSlices(ctx context.Context, req *taskenginev1.PauseSlicesRequest) (*taskenginev1.PauseSlicesResponse, error) {
	n := 1
	m, err := a.orderSlices(ctx, "pause", req, func(p timeslice.Platform, by slicer.By) (err error) {
		if p.Name == "" {
			n, err = a.slices.PauseAll(ctx, a.engine, p.Source, req.GetPrefix(), by)
			return err
		}
		return a.slices.Pause(ctx, a.engine, p, by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.PauseSlicesResponse{Platform: m, Platforms: uint32(n), OnlyOn: a.onlyOn(req.GetPlatform())}, nil
}

// ResumeSlices ends pauses.
func (a *API) ResumeSlices(ctx context.Context, req *taskenginev1.ResumeSlicesRequest) (*taskenginev1.ResumeSlicesResponse, error) {
	n := 1
	m, err := a.orderSlices(ctx, "resume", req, func(p timeslice.Platform, by slicer.By) (err error) {
		if p.Name == "" {
			n, err = a.slices.ResumeAll(ctx, a.engine, p.Source, req.GetPrefix(), by)
			return err
		}
		return a.slices.Resume(ctx, a.engine, p, by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.ResumeSlicesResponse{Platform: m, Platforms: uint32(n), OnlyOn: a.onlyOn(req.GetPlatform())}, nil
}

// ResetPlatform moves the cursor of a platform.
func (a *API) ResetPlatform(ctx context.Context, req *taskenginev1.ResetPlatformRequest) (*taskenginev1.ResetPlatformResponse, error) {
	m, err := a.orderPlatform(ctx, "reset", req, func(p timeslice.Platform, by slicer.By) error {
		if req.GetTo() == nil {
			return invalid("to is missing")
		}
		to, err := timeOf("to", req.GetTo())
		if err != nil {
			return err
		}
		from, err := timeOf("from", req.GetFrom())
		if err != nil {
			return err
		}
		return a.slices.Reset(ctx, a.engine, p, from, to, by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.ResetPlatformResponse{Platform: m}, nil
}

// RetrySlices has failed slices run again.
func (a *API) RetrySlices(ctx context.Context, req *taskenginev1.RetrySlicesRequest) (*taskenginev1.RetrySlicesResponse, error) {
	n := 1
	m, err := a.orderSlices(ctx, "retry", req, func(p timeslice.Platform, by slicer.By) (err error) {
		var of timeslice.Range
		if of.From, err = timeOf("from", req.GetFrom()); err != nil {
			return err
		}
		if of.Until, err = timeOf("until", req.GetUntil()); err != nil {
			return err
		}
		if !of.Until.IsZero() && !of.From.Before(of.Until) {
			return invalid("until is not after from")
		}
		if p.Name == "" {
			n, err = a.slices.RetryAll(ctx, a.engine, p.Source, req.GetPrefix(), of, by)
			return err
		}
		return a.slices.Retry(ctx, a.engine, p, of, by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.RetrySlicesResponse{Platform: m, Platforms: uint32(n), OnlyOn: a.onlyOn(req.GetPlatform())}, nil
}

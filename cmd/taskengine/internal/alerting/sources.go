package alerting

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/server"
)

const (
	// sourcesEvery is how often sources are looked at: each look asks their brokers.
	sourcesEvery = 30 * time.Second
	// lostFor is how long there is an alert of records that were lost.
	lostFor = 24 * time.Hour
)

// sourcesSeen is the last look at the sources.
type sourcesSeen struct {
	at    time.Time
	whole []alert.Kind
	facts []alert.Fact
}

// lookAtSources adds the sources that are behind, that do not read, and that have lost records.
func (l *look) lookAtSources(ctx context.Context, seen *alert.Look) {
	if since := seen.At.Sub(l.sources.at); since < 0 || since >= sourcesEvery {
		l.sources = l.readSources(ctx, seen.At)
	}
	seen.Whole = append(seen.Whole, l.sources.whole...)
	seen.Facts = append(seen.Facts, l.sources.facts...)
}

// readSources reads the state of all sources. If one cannot be read, all are unknown.
func (l *look) readSources(ctx context.Context, at time.Time) sourcesSeen {
	seen := sourcesSeen{at: at}
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	all, err := server.AllSources(ctx, l.config.Sources)
	if err != nil {
		return seen
	}
	isLagKnown := true
	for _, s := range all {
		add := func(kind alert.Kind, value float64, news int64, detail string) {
			seen.facts = append(seen.facts, alert.Fact{Kind: kind, Subject: s.Name, Node: l.name, Value: value, News: news, Detail: detail})
		}
		switch {
		case s.Lag > 0:
			add(alert.SourceLag, float64(s.Lag), 0, pauseText(s))
		case s.Lag < 0:
			isLagKnown = false
		}
		if problem := problemOf(s); problem != "" {
			add(alert.SourceFailing, 1, 0, problem)
		}
		if lost, news, detail := lossesOf(s, at.Add(-lostFor)); lost > 0 {
			add(alert.SourceLost, float64(lost), news, detail)
		}
	}
	if seen.whole = []alert.Kind{alert.SourceFailing, alert.SourceLost}; isLagKnown {
		seen.whole = append(seen.whole, alert.SourceLag)
	}
	return seen
}

// pauseText says that a source is paused; "" if it is not.
func pauseText(s *server.Source) string {
	switch {
	case s.Paused == nil:
		return ""
	case s.Paused.Reason == "":
		return "it is paused"
	}
	return "it is paused: " + s.Paused.Reason
}

// problemOf returns why a source does not read all of its topics; "" if it does, or is paused.
func problemOf(s *server.Source) string {
	if s.Problem != "" || s.Paused != nil {
		return s.Problem
	}
	for i := range s.Partitions {
		if p := &s.Partitions[i]; p.Node == "" && p.Message != "" && !p.Ended {
			return fmt.Sprintf("%s/%d: %s", p.Topic, p.Partition, p.Message)
		}
	}
	return ""
}

// lossesOf returns how many offsets were lost since a time, a number that grows with each loss, and the last range.
func lossesOf(s *server.Source, since time.Time) (lost, news int64, detail string) {
	for i := range s.Partitions {
		p := &s.Partitions[i]
		for _, one := range p.Lost {
			if one.At.Before(since) {
				continue
			}
			lost += one.To - one.From
			if now := one.At.UnixMicro(); now > news {
				news = now
				detail = fmt.Sprintf("the last range is %s/%d, offsets %d to %d: %s", p.Topic, p.Partition, one.From, one.To-1, one.Reason)
			}
		}
	}
	return lost, news, detail
}

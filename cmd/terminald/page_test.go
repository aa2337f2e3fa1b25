package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// eyes look at the clerk's page as a browser does: over its stream of events, which they
// open again by themselves, and they press its buttons.
type eyes struct {
	page string // address of the page, the same over all runs of the program

	mu      sync.Mutex
	now     sight
	changed chan struct{} // closed at the next change
}

// sight is what the page shows.
type sight struct {
	look, id, code string // family of the view, the check, the reason's code
	token          string
	text           string // the view without its marks
}

var (
	keyOf   = regexp.MustCompile(`data-key="([^/"]*)/([^/"]*)/([^/"]*)/`)
	tokenOf = regexp.MustCompile(`name="token" value="([^"]*)"`)
	marks   = regexp.MustCompile(`<[^>]*>`)
	missing = regexp.MustCompile(`Reçu à réimprimer : (\d+-\d{6})`)
	entryOf = regexp.MustCompile(`\b\d+-\d{6}\b`)
)

// number is the entry that the page names, "" for none.
func (s sight) number() string { return entryOf.FindString(s.text) }

func openEyes(t *testing.T, page string) *eyes {
	e := &eyes{page: page, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			e.stream(ctx)
			e.see(sight{}) // nothing is shown while nobody answers
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { cancel(); looking.Wait() })
	return e
}

// stream reads one stream to its end.
func (e *eyes) stream(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, "GET", e.page+"events", nil)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	var html strings.Builder
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "data: "):
			html.WriteString(line[len("data: "):] + "\n")
		case line == "":
			e.read(html.String())
			html.Reset()
		}
	}
}

func (e *eyes) read(html string) {
	key := keyOf.FindStringSubmatch(html)
	if key == nil {
		return // a heartbeat
	}
	s := sight{look: key[1], id: key[2], code: key[3], text: marks.ReplaceAllString(html, " ")}
	if m := tokenOf.FindStringSubmatch(html); m != nil {
		s.token = m[1]
	}
	e.see(s)
}

func (e *eyes) see(s sight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = s
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *eyes) look() (sight, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now, e.changed
}

// until waits for a sight, at most for the time given.
func (e *eyes) until(ctx context.Context, limit time.Duration, what func(sight) bool) (sight, bool) {
	over := time.After(limit)
	for {
		s, changed := e.look()
		if what(s) {
			return s, true
		}
		select {
		case <-changed:
		case <-over:
			return s, false
		case <-ctx.Done():
			return s, false
		}
	}
}

// press presses a button of the view s. An error means that nobody knows what came of it.
func (e *eyes) press(ctx context.Context, s sight, button string) error {
	form := url.Values{"token": {s.token}, "id": {s.id}}
	req, err := http.NewRequestWithContext(ctx, "POST", e.page+button, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Grattoir-Part", "view")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("press %s: %s", button, res.Status)
	}
	return nil
}

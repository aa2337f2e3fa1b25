package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"grattoir/sync/central"
)

func TestConsoleShowsTheOpenCentral(t *testing.T) {
	c, err := central.Open(t.Context(), central.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.AddTerminal(t.Context(), "shop-0042"); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost:8088/", nil)
	w := httptest.NewRecorder()
	consoleHandler(c).ServeHTTP(w, r)
	if w.Code != 200 || !strings.Contains(w.Body.String(), "shop-0042") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

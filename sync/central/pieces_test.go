package central

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"grattoir/sync/wire"
)

// text asks for a path and gives the answer's status and body.
func (w *world) text(t testing.TB, d *device, path string) (int, string) {
	t.Helper()
	resp, err := d.client.Get("https://central" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func signedText(t testing.TB, signed string) wire.Snapshot {
	t.Helper()
	text, _, _ := strings.Cut(signed, "\n\n")
	s, err := wire.ParseSnapshot(text + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshotNamesTheDescriptorToWhoeverAsksForIt(t *testing.T) {
	onEachStore(t, testSnapshotNamesTheDescriptorToWhoeverAsksForIt)
}

func testSnapshotNamesTheDescriptorToWhoeverAsksForIt(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	_, plain := w.text(t, d, wire.PathSnapshot)
	_, asked := w.text(t, d, wire.PathSnapshot+wire.SnapshotQuery)
	old, now := signedText(t, plain), signedText(t, asked)
	if !strings.HasPrefix(plain, "grattoir snapshot v1\n") || !strings.HasPrefix(asked, "grattoir snapshot v2\n") || old.Version != now.Version || now.WithoutPieces().Text() != old.Text() {
		t.Fatalf("without asking:\n%s\nasked:\n%s", plain, asked)
	}
	status, text := w.text(t, d, wire.PathPieces+now.Blocks[0].Pieces)
	p, err := wire.ParsePieces(text)
	if status != http.StatusOK || err != nil || p.Name() != now.Blocks[0].Pieces || p.Block != now.Blocks[0].SHA256 || p.Size != now.Blocks[0].Size {
		t.Errorf("%d %v\n%s", status, err, text)
	}
	for path, want := range map[string]int{strings.Repeat("0", 64): http.StatusNotFound, "..%2f..%2fca.key": http.StatusBadRequest, now.Blocks[0].SHA256: http.StatusNotFound} {
		if status, text := w.text(t, d, wire.PathPieces+path); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// TestBlocksOfAnEarlierProgramGetTheirDescriptorAtTheNextStart: a new snapshot names it,
// once; a block whose file is gone stays as it was and stops nothing.
func TestBlocksOfAnEarlierProgramGetTheirDescriptorAtTheNextStart(t *testing.T) {
	w := newWorld(t)
	other, _ := sealBlock(t, w.Central, 30)
	gone, err := w.Publish(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	before := newest(t, w.Central)
	store := w.store.(*sqliteStore)
	for _, s := range []string{"UPDATE blocks SET pieces = ''", "UPDATE snapshots SET with_pieces = ''"} {
		if _, err := store.write.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{w.piecesPath(before.Blocks[0].Pieces), w.piecesPath(before.Blocks[1].Pieces), w.blockPath(gone.SHA256)} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	opt := w.opt
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c := openCentral(t, opt)
		now := newest(t, c)
		if now.Version != before.Version+1 || now.Blocks[0].Pieces != before.Blocks[0].Pieces || now.Blocks[1].Pieces != "" {
			t.Errorf("before %+v, now %+v", before, now)
		}
		if _, err := os.Stat(c.piecesPath(now.Blocks[0].Pieces)); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

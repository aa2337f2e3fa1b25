package central

import (
	"strings"
	"testing"

	"grattoir/sync/wire"
)

// TestCatalogueAndSoftwareAreInTheSnapshotOfWhoAsks, and in no other: programs that know
// nothing of them read the texts that they always read.
func TestCatalogueAndSoftwareAreInTheSnapshotOfWhoAsks(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		d := w.enrolled(t, "T-1")
		before, _, err := w.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		snapshot := func(query string) (s wire.Snapshot, text string) {
			t.Helper()
			if e := get(t, d.client, wire.PathSnapshot+query, &text); e != nil {
				t.Fatal(e)
			}
			bare, _, _ := strings.Cut(text, "\n\n")
			s, err := wire.ParseSnapshot(bare + "\n")
			if err != nil {
				t.Fatal(err)
			}
			return s, text
		}
		k, err := w.PublishCatalogue(ctx, []byte("a catalogue\n"), 1, "anne")
		if err != nil || k.Size != 12 {
			t.Fatalf("%+v %v", k, err)
		}
		r := wire.Release{Name: "terminald", Version: "1.4.0", SHA256: strings.Repeat("ab", 32), Size: 7}
		if _, err := w.Announce(ctx, r, "anne"); err != nil {
			t.Fatal(err)
		}
		other := r
		other.SHA256 = strings.Repeat("cd", 32)
		_, err = w.Announce(ctx, other, "anne")
		wantErr(t, err, ErrRefused)
		_, err = w.Announce(ctx, wire.Release{}, "anne")
		wantErr(t, err, ErrRefused)
		_, err = w.PublishCatalogue(ctx, nil, 0, "anne")
		wantErr(t, err, ErrRefused)

		s, text := snapshot(wire.SnapshotQuery3)
		if s.Version != before+2 || s.Catalogue != (wire.CatalogueFile{SHA256: k.SHA256, Size: 12}) || len(s.Software) != 1 || s.Software[0] != r {
			t.Fatalf("%s", text)
		}
		for _, query := range []string{"", wire.SnapshotQuery} {
			if s, text := snapshot(query); s.Version != before+2 || strings.Contains(text, "catalogue") || strings.Contains(text, "software") {
				t.Errorf("%q: %s", query, text)
			}
		}
		var file string
		if e := get(t, d.client, wire.PathCatalogues+k.SHA256, &file); e != nil || file != "a catalogue\n" {
			t.Errorf("%q %v", file, e)
		}
		wantKind(t, get(t, d.client, wire.PathCatalogues+strings.Repeat("0", 64), &file), wire.KindNotFound)
		if a, e := d.hello(t, nil); e != nil || a.Texts != wire.SnapshotTexts {
			t.Errorf("%+v %v", a, e)
		}

		wantErr(t, w.WithdrawSoftware(ctx, "terminald", "1.4.0"), nil)
		wantErr(t, w.WithdrawSoftware(ctx, "terminald", "1.4.0"), ErrNotFound)
		if s, _ := snapshot(wire.SnapshotQuery3); len(s.Software) != 0 || s.Version != before+3 {
			t.Errorf("withdrawn: %+v", s)
		}
		if list, err := w.SoftwareList(ctx); err != nil || len(list) != 1 || list[0].Withdrawn.IsZero() {
			t.Errorf("%+v %v", list, err)
		}
		if got, text, err := w.CatalogueText(ctx); err != nil || got.SHA256 != k.SHA256 || text != "a catalogue\n" || got.Operator != "anne" {
			t.Errorf("%+v %v", got, err)
		}
	})
}

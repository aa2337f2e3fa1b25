package flash

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/manifest"
)

// world is an image on disk and the ring of the key that signed it.
type world struct {
	raw    []byte
	path   string
	ring   manifest.Keys
	signer note.Signer
	public string
}

var testRelease = Release{Name: "grattoir-test", Version: "1.0", Board: "grattoir-rpi-arm64", Built: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}

// packed are the images that all tests share, by their MiB: packing one takes longer than
// most tests.
var packed = struct {
	sync.Mutex
	worlds map[int]world
	files  map[int]map[string][]byte // by suffix
}{worlds: map[int]world{}, files: map[int]map[string][]byte{}}

// newWorld is an image of so many MiB, 10 or more, and 12 KiB: 4 MiB of data, the table of partitions in
// its first, two more of one MiB, and a hole at the end. Its files are the test's own.
func newWorld(t testing.TB, units int) *world {
	t.Helper()
	packed.Lock()
	defer packed.Unlock()
	if packed.files[units] == nil {
		packed.worlds[units], packed.files[units] = packWorld(t, units)
	}
	w, dir := packed.worlds[units], t.TempDir()
	for suffix, text := range packed.files[units] {
		if err := os.WriteFile(filepath.Join(dir, w.path+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.path = filepath.Join(dir, w.path+ImageSuffix)
	return &w
}

func packWorld(t testing.TB, units int) (world, map[string][]byte) {
	w := world{raw: make([]byte, units*unit+3*sector)}
	src := mathrand.NewChaCha8([32]byte{1})
	data := func(from, to int) {
		for off := from * unit; off < to*unit; off += unit {
			_, _ = src.Read(w.raw[off : off+16<<10])
			w.raw[off+unit-1] = 1
		}
	}
	data(0, 4)
	data(5, 6)
	data(8, 9)
	secret, public, err := note.GenerateKey(rand.Reader, "test-lottery")
	w.public = public
	if err != nil {
		t.Fatal(err)
	}
	if w.signer, err = note.NewSigner(secret); err != nil {
		t.Fatal(err)
	}
	if w.ring, err = manifest.NewKeys(1, public); err != nil {
		t.Fatal(err)
	}
	path, _, err := Pack(t.Context(), bytes.NewReader(w.raw), t.TempDir(), testRelease, w.signer)
	if err != nil {
		t.Fatal(err)
	}
	stem, files := strings.TrimSuffix(path, ImageSuffix), map[string][]byte{}
	for _, suffix := range []string{ImageSuffix, MapSuffix, ManifestSuffix} {
		if files[suffix], err = os.ReadFile(stem + suffix); err != nil {
			t.Fatal(err)
		}
	}
	w.path = filepath.Base(stem)
	return w, files
}

func (w *world) open(t testing.TB) *Image {
	t.Helper()
	im, err := Open(t.Context(), w.path, w.ring, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// codeOf is the code of a fault, "" for none.
func codeOf(err error) string {
	var f *Fault
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

// TestImageIsTheRawOneForAnyTool: what is packed unpacks with any zstd, is the same at the
// next build however the raw bytes come, and its map says where data is.
func TestImageIsTheRawOneForAnyTool(t *testing.T) {
	w := newWorld(t, 10)
	packed, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if raw, err := io.ReadAll(d); err != nil || !bytes.Equal(raw, w.raw) {
		t.Errorf("unpacked by another reader: %d bytes, %v", len(raw), err)
	}
	var again bytes.Buffer
	m, blocks, err := Build(t.Context(), io.MultiReader(bytes.NewReader(w.raw[:5]), bytes.NewReader(w.raw[5:])), &again, testRelease)
	if err != nil || !bytes.Equal(again.Bytes(), packed) {
		t.Errorf("a second build differs: %v", err)
	}
	im := w.open(t)
	if im.Manifest != m || im.ID() != m.ID() || im.blocks.Text() != blocks.Text() {
		t.Errorf("opened %+v, built %+v", im.Manifest, m)
	}
	var holes [][2]int64
	for _, r := range im.blocks.Ranges {
		if r.Hole {
			holes = append(holes, [2]int64{r.Off / unit, r.Len / sector})
		}
	}
	if want := [][2]int64{{4, 256}, {6, 2 * 256}, {9, 256 + 3}}; !equal(holes, want) {
		t.Errorf("holes %v, want %v", holes, want)
	}
	if first := im.blocks.Ranges[0]; first.Len != unit || first.Hole {
		t.Errorf("first range %+v", first)
	}
	for name, raw := range map[string][]byte{"an odd size": w.raw[:3*unit+512], "too little": w.raw[:unit], "nothing": nil} {
		if _, _, err := Build(t.Context(), bytes.NewReader(raw), io.Discard, testRelease); err == nil {
			t.Errorf("%s was packed", name)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := Build(stopped, bytes.NewReader(w.raw), io.Discard, testRelease); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestDamagedOrForeignImageIsRefusedBeforeWriting: each of the three files, changed,
// missing or of another release.
func TestDamagedOrForeignImageIsRefusedBeforeWriting(t *testing.T) {
	w := newWorld(t, 10)
	stem := strings.TrimSuffix(w.path, ImageSuffix)
	_, foreign, err := note.GenerateKey(rand.Reader, "test-lottery")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := manifest.NewKeys(1, foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), w.path, ring, nil); codeOf(err) != codeUntrusted {
		t.Errorf("with another key: %v", err)
	}
	if _, err := Open(t.Context(), stem+".img", w.ring, nil); codeOf(err) != codeUntrusted {
		t.Errorf("by another name: %v", err)
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for _, c := range []struct {
		name, suffix, code string
		change             func([]byte) []byte
	}{
		{"manifest changed", ManifestSuffix, codeUntrusted, flip},
		{"manifest gone", ManifestSuffix, codeUntrusted, nil},
		{"manifest of another kind", ManifestSuffix, codeUntrusted, func([]byte) []byte {
			signed, _ := note.Sign(&note.Note{Text: "grattoir policy v1\n"}, w.signer)
			return signed
		}},
		{"map changed", MapSuffix, codeDamaged, flip},
		{"map gone", MapSuffix, codeDamaged, nil},
		{"image changed", ImageSuffix, codeDamaged, flip},
		{"image cut", ImageSuffix, codeDamaged, func(b []byte) []byte { return b[:len(b)-1] }},
		{"image longer", ImageSuffix, codeDamaged, func(b []byte) []byte { return append(b, 0) }},
	} {
		path := stem + c.suffix
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			if err := os.WriteFile(path, c.change(bytes.Clone(good)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if im, err := Open(t.Context(), w.path, w.ring, nil); codeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
			if im != nil {
				im.Close()
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A file that changes after it was verified is found by the range's own hash.
	im := w.open(t)
	packed, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	r := im.blocks.Ranges[1]
	packed[r.At+r.Packed-1] ^= 1
	if err := os.WriteFile(w.path, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := im.load(r, make([]byte, maxPacked), aligned(maxRange)); codeOf(err) != codeDamaged {
		t.Errorf("changed afterwards: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(w.path), "*")); err != nil || len(left) != 3 {
		t.Errorf("files left: %v %v", left, err)
	}
}

func FuzzBlockMap(f *testing.F) {
	f.Add(mapTitle + "\nsize 2097152\ndata 0 1048576 " + strings.Repeat("ab", 32) + " 0 100\nhole 1048576 1048576\n")
	f.Add(mapTitle + "\nsize 2097152\nhole 0 2097152\n")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBlockMap(text)
		if err == nil && b.Text() != text {
			t.Errorf("%q was read as %q", text, b.Text())
		}
		at := int64(0)
		for _, r := range b.Ranges {
			if err == nil && (r.Off != at || r.Len <= 0 || r.Off+r.Len > b.Size) {
				t.Errorf("accepted %+v after %d", r, at)
			}
			at = r.Off + r.Len
		}
	})
}

func FuzzImageManifest(f *testing.F) {
	f.Add(Manifest{Release: testRelease, Size: 2 * unit, PackedSize: 1}.Text())
	f.Add(strings.Replace(Manifest{Release: testRelease, Size: 2 * unit, PackedSize: 1}.Text(), "12:00:00Z", "12:00:00.5Z", 1)) // a time with parts of a second
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ParseManifest(text); err == nil && m.Text() != text {
			t.Errorf("%q was read as %q", text, m.Text())
		}
	})
}

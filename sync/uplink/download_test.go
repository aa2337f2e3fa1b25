package uplink

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/sync/wire"
)

// counted serves blocks as central does and counts what it sends; spoil may change a copy
// of what a request gets.
type counted struct {
	asked []string // the ranges
	sent  int64
}

func (l *link) count(spoil func(n int, from int64, body []byte) []byte) *counted {
	c := &counted{}
	answer := func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		name, ok := strings.CutPrefix(r.URL.Path, wire.PathBlocks)
		if !ok {
			return false
		}
		l.mu.Lock()
		content := l.fake.blocks[name]
		l.mu.Unlock()
		from, to := 0, len(content)
		if text := r.Header.Get("Range"); text != "" {
			a, b, _ := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
			from = must(strconv.Atoi(a))
			if b != "" {
				to = must(strconv.Atoi(b)) + 1
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(content)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(to-from))
		if from > 0 || to < len(content) {
			w.WriteHeader(http.StatusPartialContent)
		}
		body := spoil(len(c.asked), int64(from), bytes.Clone(content[from:to]))
		c.asked = append(c.asked, r.Header.Get("Range"))
		n, _ := w.Write(body)
		c.sent += int64(n)
		if n < to-from {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	}
	l.update(func() { l.spoil = answer })
	return c
}

func asItIs(_ int, _ int64, body []byte) []byte { return body }

func flip(at int64) func(int, int64, []byte) []byte {
	return func(n int, from int64, body []byte) []byte {
		if i := at - from; n == 0 && i >= 0 && i < int64(len(body)) {
			body[i] ^= 1
		}
		return body
	}
}

// TestBadPieceCostsOnePiece: what follows it is taken all the same, and it alone is asked for again.
func TestBadPieceCostsOnePiece(t *testing.T) {
	for _, bad := range []int{0, 2, 4} {
		bubble(t, func(t *testing.T, l *link) {
			content := noise(4*wire.PieceSize + 5000)
			name := l.publish(content)
			l.describe(func(*wire.Pieces) {})
			c := l.count(flip(int64(bad)*wire.PieceSize + 99))
			l.start()
			pass(10 * time.Second)
			l.visible(name, content)
			l.absent(l.path(name, piecesSuffix))
			piece := min(wire.PieceSize, len(content)-bad*wire.PieceSize)
			if len(c.asked) != 2 || c.sent != int64(len(content)+piece) {
				t.Errorf("piece %d bad: %d bytes sent of %d, asked for %q", bad, c.sent, len(content), c.asked)
			}
		})
	}
}

// TestCutsOfAProvenBlockCostNothing: a piece goes on where it was cut, also when the
// program was started anew, and every byte is sent once.
func TestCutsOfAProvenBlockCostNothing(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(2*wire.PieceSize + 5000)
		name := l.publish(content)
		l.describe(func(*wire.Pieces) {})
		c := l.count(func(_ int, _ int64, body []byte) []byte { return body[:min(len(body), 300_001)] })
		for range 3 {
			l.start()
			pass(2 * time.Second)
			l.stop()
		}
		l.start()
		pass(10 * time.Minute)
		l.visible(name, content)
		if c.sent != int64(len(content)) || len(c.asked) != 8 || l.asked("GET "+wire.PathPieces) != 1 {
			t.Errorf("%d bytes sent of %d in %d requests, the descriptor %d times", c.sent, len(content), len(c.asked), l.asked("GET "+wire.PathPieces))
		}
	})
}

// TestWhatLiesOnTheDiskIsProvenBeforeItCounts: pieces that a power cut spoiled are asked
// for again, wherever they are, and no others.
func TestWhatLiesOnTheDiskIsProvenBeforeItCounts(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(6*wire.PieceSize + 10)
		name := l.publish(content)
		l.describe(func(*wire.Pieces) {})
		part := bytes.Clone(content[:4*wire.PieceSize+7777])
		part[wire.PieceSize+1] ^= 1                         // piece 1
		clear(part[3*wire.PieceSize+50 : 4*wire.PieceSize]) // piece 3
		clear(part[4*wire.PieceSize+7000:])                 // the end of what there is of piece 4
		if err := os.MkdirAll(l.opt.Blocks.Dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.path(name, partSuffix), part, 0o640); err != nil {
			t.Fatal(err)
		}
		c := l.count(asItIs)
		l.start()
		pass(10 * time.Second)
		l.visible(name, content)
		want := "bytes=1048576-2097151 bytes=3145728-"
		if got := strings.Join(c.asked, " "); got != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
	})
}

// TestSourceThatIsWrongAllOverIsLeftAfterTwoPieces: it does not send the whole in vain, and
// what is right of it is kept for the next.
func TestSourceThatIsWrongAllOverIsLeftAfterTwoPieces(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(8 * wire.PieceSize)
		name := l.publish(content)
		l.describe(func(*wire.Pieces) {})
		l.opt.Rand = func() float64 { return 0.9 }
		c := l.count(func(_ int, _ int64, body []byte) []byte { clear(body[wire.PieceSize:]); return body })
		l.start()
		pass(100 * time.Millisecond)
		if f := l.fault(LaneFiles); f.Code != CodeSignature || !strings.Contains(f.Text, "piece 3 of 8") {
			t.Fatalf("%+v", f)
		}
		l.absent(l.path(name, blockSuffix))
		tries := len(c.asked)
		c.sent = 0
		c = l.count(asItIs)
		pass(2 * time.Minute)
		l.visible(name, content)
		if tries != 1 || c.sent > 7*wire.PieceSize {
			t.Errorf("asked %d times, then %d bytes more", tries, c.sent)
		}
	})
}

func TestDescriptorThatIsNotTheSignedOneIsNotUsed(t *testing.T) {
	content := noise(3 * wire.PieceSize)
	for name, spoil := range map[string]func(l *link, name string){
		"another text": func(l *link, name string) {
			p := must(wire.ParsePieces(l.pieces[name]))
			p.Sums[1][0] ^= 1
			l.pieces[name] = p.Text()
		},
		"a page":  func(l *link, name string) { l.pieces[name] = "<html>" },
		"nothing": func(l *link, name string) { l.pieces[name] = "" },
	} {
		bubble(t, func(t *testing.T, l *link) {
			hash := l.publish(content)
			l.describe(func(*wire.Pieces) {})
			var was string
			l.update(func() {
				p := l.snapshot.Blocks[0].Pieces
				was = l.pieces[p]
				spoil(l, p)
			})
			l.start()
			pass(20 * time.Second)
			l.absent(l.path(hash, blockSuffix))
			if f := l.fault(LaneFiles); f.Code != CodeSignature || !strings.Contains(f.Text, "descriptor") || l.asked("GET "+wire.PathBlocks) != 0 {
				t.Errorf("%s: %+v", name, f)
			}
			l.update(func() { l.pieces[l.snapshot.Blocks[0].Pieces] = was })
			pass(2 * time.Minute)
			l.visible(hash, content)
		})
	}
}

// TestSignedDescriptorOfOtherBytesMakesNothingVisible: central itself named it, and the
// file's own name has the last word.
func TestSignedDescriptorOfOtherBytesMakesNothingVisible(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(2 * wire.PieceSize)
		name := l.publish(content)
		other := bytes.Clone(content)
		other[5] ^= 1
		l.describe(func(p *wire.Pieces) { p.Sums = must(wire.ReadPieces(bytes.NewReader(other))).Sums })
		l.count(func(_ int, from int64, body []byte) []byte { copy(body, other[from:]); return body })
		l.start()
		pass(20 * time.Second)
		l.absent(l.path(name, blockSuffix))
		if f := l.fault(LaneFiles); f.Code != CodeSignature || !strings.Contains(f.Text, "as a whole") {
			t.Errorf("%+v", f)
		}
	})
}

func TestCentralWithoutTheDescriptorIsAskedForTheBlockAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(wire.PieceSize + 3)
		name := l.publish(content)
		l.describe(func(*wire.Pieces) {})
		l.update(func() { clear(l.pieces) })
		l.start()
		pass(10 * time.Second)
		l.visible(name, content)
	})
}

// TestAnswerToARangeThatIsAnotherIsNeverInstalled: what servers and caches do to a
// resumed download in the field, with and without a descriptor.
func TestAnswerToARangeThatIsAnotherIsNeverInstalled(t *testing.T) {
	t.Parallel()
	content := noise(wire.PieceSize + 4096)
	at := wire.PieceSize // what is there is whole up to here
	for name, send := range map[string]func(w http.ResponseWriter){
		"the whole with 200":           func(w http.ResponseWriter) { _, _ = w.Write(content) },
		"another whole with 200":       func(w http.ResponseWriter) { _, _ = w.Write(noise(len(content) - 1)) },
		"a shifted run":                func(w http.ResponseWriter) { sendPart(w, at-1, content[at-1:], len(content)) },
		"a shifted run, falsely named": func(w http.ResponseWriter) { sendPart(w, at, content[at-1:len(content)-1], len(content)) },
		"a longer one":                 func(w http.ResponseWriter) { sendPart(w, at, append(bytes.Clone(content[at:]), 1), len(content)) },
		"of another size":              func(w http.ResponseWriter) { sendPart(w, at, content[at:], len(content)+1) },
		"out of range":                 func(w http.ResponseWriter) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) },
		"a flipped bit": func(w http.ResponseWriter) {
			b := bytes.Clone(content[at:])
			b[7] ^= 1
			sendPart(w, at, b, len(content))
		},
	} {
		for _, described := range []bool{false, true} {
			bubble(t, func(t *testing.T, l *link) {
				hash := l.publish(content)
				if described {
					l.describe(func(*wire.Pieces) {})
				}
				if err := os.MkdirAll(l.opt.Blocks.Dir, 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(l.path(hash, partSuffix), content[:at+1], 0o640); err != nil {
					t.Fatal(err)
				}
				l.spoil = only(wire.PathBlocks, func(w http.ResponseWriter, r *http.Request) { send(w) })
				l.start()
				pass(20 * time.Second)
				if got, err := os.ReadFile(l.path(hash, blockSuffix)); err == nil && !bytes.Equal(got, content) {
					t.Fatalf("%s: %d wrong bytes are visible", name, len(got))
				}
				l.update(func() { l.spoil = nil })
				pass(2 * time.Minute)
				l.visible(hash, content)
			})
		}
	}
}

func sendPart(w http.ResponseWriter, at int, body []byte, size int) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, at+len(body)-1, size))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(body)
}

// TestFullDiskIsNamedBeforeAByteIsFetched, and what came before stays for when there is room.
func TestFullDiskIsNamedBeforeAByteIsFetched(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		content := noise(3 * wire.PieceSize)
		name := l.publish(content)
		var full atomic.Bool
		full.Store(true)
		l.opt.Blocks.allocate = func(f *os.File, size int64) error {
			if full.Load() {
				return unix.ENOSPC
			}
			return nil
		}
		l.start()
		pass(20 * time.Second)
		if f := l.fault(LaneFiles); f.Code != CodeStore || !strings.Contains(f.Text, "no room") || !strings.Contains(f.Text, "free some space") {
			t.Errorf("%+v", f)
		}
		if n := l.asked("GET " + wire.PathBlocks); n != 0 {
			t.Errorf("%d downloads", n)
		}
		full.Store(false)
		pass(2 * time.Minute)
		l.visible(name, content)
	})
}

// TestRoomOfADownloadIsTakenBeforeItsBytesCome: by the system's own account.
func TestRoomOfADownloadIsTakenBeforeItsBytesCome(t *testing.T) {
	s := BlockStore{Dir: t.TempDir(), Quota: 1 << 30}
	f, err := os.Create(s.Dir + "/x.part")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 5*wire.PieceSize + 12345
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this file system reserves nothing, so downloads here go by what is free")
	}
	if err := s.reserve(f, size); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() != 0 || allocated(info) < size {
		t.Fatalf("length %d, taken %d of %d, %v", info.Size(), allocated(info), size, err)
	}
	c, err := s.survey(nil, func(string) (Held, bool) { return Held{}, false })
	if err != nil || c.parts < size || c.taken < size {
		t.Errorf("the survey counts %d and %d bytes, %v", c.parts, c.taken, err)
	}
	s.Reserve = 1 << 60
	if err := s.reserve(f, size); !errors.Is(err, ErrNoSpace) || !errors.Is(err, ErrStore) {
		t.Errorf("into the reserve: %v", err)
	}
}

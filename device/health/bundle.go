package health

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bundle is what a technician sends to support. What may be in it is a list of parts and,
// in each, a list of facts: what is on neither is left out, whatever lies beside it. Free
// text, as of a log or an error, goes through Scrub besides.
type Bundle struct{ parts []part }

type part struct {
	name    string
	content []byte
}

// Part is one file of a bundle.
type Part struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// The files that a bundle may have. Each is at most MaxPart bytes, the README aside.
const (
	PartConfig    = "config.json"    // the configuration's keys that tell nobody's name and no secret
	PartDoctor    = "doctor.json"    // what the doctor found
	PartLedger    = "ledger.json"    // where the journal ends and how many entries of each kind it has
	PartLog       = "log.txt"        // the end of the log that was given
	PartManifests = "manifests.json" // the files of blocks, by their headers
	PartStatus    = "status.json"    // the daemon's word, where it is up
	PartVersions  = "versions.json"  // programs, system, board
)

// MaxPart bounds one part, in bytes before compression.
const MaxPart = 1 << 20

func partMeaning(name string) (string, bool) {
	meaning, known := map[string]string{
		PartConfig:    "the configuration's keys that tell no secret and nobody's name",
		PartDoctor:    "what the doctor found",
		PartLedger:    "where the journal ends and how many entries of each kind it has; no entry",
		PartLog:       "the end of the log that was given, lines and words that may hold a secret left out",
		PartManifests: "the files of blocks, by their headers",
		PartStatus:    "the daemon's word, where it is up",
		PartVersions:  "program, system and board",
	}[name]
	return meaning, known
}

// AddJSON adds a part. One that is too large, or that no bundle may have, is an error.
func (b *Bundle) AddJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("bundle: %s: %w", name, err)
	}
	return b.add(name, append(text, '\n'))
}

// AddLog adds the end of a log, made safe by SafeLog.
func (b *Bundle) AddLog(log io.Reader) error {
	text, err := SafeLog(log)
	if err != nil {
		return fmt.Errorf("bundle: the log: %w", err)
	}
	return b.add(PartLog, text)
}

func (b *Bundle) add(name string, content []byte) error {
	if _, known := partMeaning(name); !known {
		return fmt.Errorf("bundle: %s is no part of one", name)
	}
	if len(content) > MaxPart {
		return fmt.Errorf("bundle: %s has %d bytes, at most %d", name, len(content), MaxPart)
	}
	b.parts = append(b.parts, part{name, content})
	return nil
}

// Write writes the bundle as a gzip-compressed tar, its parts in the order of their names
// below the folder dir. The same parts at the same time give the same bytes.
func (b *Bundle) Write(w io.Writer, dir string, at time.Time) ([]Part, error) {
	parts := slices.Clone(b.parts)
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	var readme strings.Builder
	readme.WriteString("Support bundle of a Grattoir terminal. It holds no key, PIN, ticket code or identity.\n\n")
	for _, p := range parts {
		meaning, _ := partMeaning(p.name)
		fmt.Fprintf(&readme, "%-16s%s\n", p.name, meaning)
	}
	parts = slices.Insert(parts, 0, part{"README.txt", []byte(readme.String())})

	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	var list []Part
	for _, p := range parts {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, p.name), Mode: 0o600, Size: int64(len(p.content)), ModTime: at.Truncate(time.Second), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(head); err != nil {
			return nil, fmt.Errorf("bundle: %s: %w", p.name, err)
		}
		if _, err := archive.Write(p.content); err != nil {
			return nil, fmt.Errorf("bundle: %s: %w", p.name, err)
		}
		list = append(list, Part{p.name, len(p.content), fmt.Sprintf("%x", sha256.Sum256(p.content))})
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return list, zip.Close()
}

// SafeLog keeps the end of a log, at most MaxPart bytes in whole lines. Of terminald's lines
// it keeps the keys that this program knows, and scrubs their values; of any other it says
// only that it was left out. Whatever stands before "time=" (journald's prefix) goes.
func SafeLog(log io.Reader) ([]byte, error) {
	text, err := tail(log, MaxPart)
	if err != nil {
		return nil, err
	}
	var lines []string
	left := 0
	leftOut := func() {
		if left > 0 {
			lines = append(lines, "["+count(left, "line that is not terminald's was", "lines that are not terminald's were")+" left out]\n")
		}
		left = 0
	}
	for line := range strings.Lines(string(text)) {
		kept, ok := safeLine(strings.TrimSpace(line))
		if !ok {
			left++
			continue
		}
		leftOut()
		lines = append(lines, kept+"\n")
	}
	leftOut()
	first, size := len(lines), 0
	for first > 0 && size+len(lines[first-1]) <= MaxPart { // they have grown a little
		first--
		size += len(lines[first])
	}
	return []byte(strings.Join(lines[first:], "")), nil
}

// tail is the end of what r gives, at most so many bytes and no half line at its front.
func tail(r io.Reader, most int) ([]byte, error) {
	var kept []byte
	cut := false
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		kept = append(kept, buf[:n]...)
		if len(kept) > most {
			kept, cut = kept[len(kept)-most:], true
		}
		switch {
		case err == io.EOF && cut:
			_, whole, _ := bytes.Cut(kept, []byte("\n"))
			return whole, nil
		case err == io.EOF:
			return kept, nil
		case err != nil:
			return nil, err
		}
	}
}

const maxLogLine = 4 << 10

// logKeys are the keys of terminald's log that tell what happened to the machine. Those
// that tell who did it stay here.
func logKeys() []string {
	return []string{"time", "level", "msg", "err", "was", "terminal", "page", "socket", "blocks", "block", "file", "folder", "earlier", "version", "from", "to", "signed", "source",
		"device", "path", "profile", "answers", "bytes", "code", "took", "seq", "game", "ticket", "tickets", "scaled", "outcome", "reason", "stage", "entered", "detail",
		"step", "state", "lane", "tries", "kind", "records", "now", "line", "number", "copy", "on"}
}

// safeLine is one of terminald's lines with the keys that may leave, scrubbed.
func safeLine(line string) (string, bool) {
	at := strings.Index(line, "time=")
	if at < 0 || len(line) > maxLogLine {
		return "", false
	}
	var out []string
	rest := line[at:]
	for rest != "" {
		key, value, after, ok := attribute(rest)
		if !ok {
			return "", false
		}
		switch {
		case key == "time":
			out = append(out, "time="+plain(value))
		case slices.Contains(logKeys(), key):
			out = append(out, fmt.Sprintf("%s=%q", key, Scrub(value)))
		default:
			out = append(out, plain(key)+"=[left out]")
		}
		rest = after
	}
	return strings.Join(out, " "), true
}

// attribute reads key=value or key="quoted value" from the front of a line.
func attribute(s string) (key, value, rest string, ok bool) {
	key, s, ok = strings.Cut(s, "=")
	if !ok || key == "" || strings.ContainsAny(key, " \"") {
		return "", "", "", false
	}
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, " ")
		return key, value, rest, true
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return key, strings.ReplaceAll(s[1:i], `\"`, `"`), strings.TrimPrefix(s[i+1:], " "), true
		}
	}
	return "", "", "", false
}

// hidden stands where something was that may be a secret.
const hidden = "[hidden]"

// The forms of what a terminal keeps secret.
var (
	afterPrivate = regexp.MustCompile(`(?s)PRIVATE.*`)                                                                                                 // PEM and note keys
	pinHash      = regexp.MustCompile(`\$argon2\S*`)                                                                                                   // PHC text
	password     = regexp.MustCompile(`[^\s/@]+:[^\s/@]+@`)                                                                                            // max:word@host
	setting      = regexp.MustCompile(`= "(?:[^"\\]|\\.)*"`)                                                                                           // what was typed for a key of the configuration
	enrolment    = regexp.MustCompile(`[A-Z0-9]{4}(-[A-Z0-9]{4}){3,}`)                                                                                 // ABCD-EFGH-...
	grouped      = regexp.MustCompile(`[0-9]([ .-]?[0-9]){16,}`)                                                                                       // times and a ticket's public part have fewer digits
	longNumber   = regexp.MustCompile(`[0-9]{12,}`)                                                                                                    // tickets
	base64Key    = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)                                                                                      // with its slashes, which paths have too
	longWord     = regexp.MustCompile(`[A-Za-z0-9+=]{20,}`)                                                                                            // hashes and keys in hex or base64
	letterDigit  = regexp.MustCompile(`[A-Za-z].*[0-9]|[0-9].*[A-Za-z]`)                                                                               // no word of a language
	manyKinds    = []*regexp.Regexp{regexp.MustCompile(`([A-Z].*){3}`), regexp.MustCompile(`([a-z].*){3}`), regexp.MustCompile(`[0-9+]|([A-Z].*){8}`)} // no path
)

// Scrub takes out of a free text what may be a ticket's code, a key, a hash or a password:
// twelve digits or more in a row and seventeen in groups, enrolment codes, long words of
// letters and digits, what follows PRIVATE, a name with a password before a host, and the
// value in a complaint about a setting. It is the second line behind the list of what may
// be told, for texts that nobody can list.
func Scrub(text string) string {
	text = setting.ReplaceAllLiteralString(text, "= "+hidden)
	for _, form := range []*regexp.Regexp{afterPrivate, pinHash, password, enrolment, grouped, longNumber} {
		text = form.ReplaceAllLiteralString(text, hidden)
	}
	hide := func(where *regexp.Regexp, signs ...*regexp.Regexp) {
		text = where.ReplaceAllStringFunc(text, func(word string) string {
			for _, sign := range signs {
				if !sign.MatchString(word) {
					return word
				}
			}
			return hidden
		})
	}
	hide(base64Key, manyKinds...)
	hide(longWord, letterDigit)
	return text
}

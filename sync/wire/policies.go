package wire

import (
	"fmt"
	"strings"
)

// PathPolicies+SHA256 gives a signed policy that the snapshot lists, byte for byte.
const PathPolicies = "/v1/policies/"

// MaxPolicies bounds the policies of a snapshot: a lottery has a few at a time.
const MaxPolicies = 50

// PolicyFile is a signed policy as the snapshot lists it: the file that policy.Parse
// reads, with its own signatures.
type PolicyFile struct {
	SHA256 string
	Size   int64
}

// policyLines are the lines of a snapshot's policies, none where it has none.
func policyLines(list []PolicyFile) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "policies %d\n", len(list))
	for _, p := range list {
		fmt.Fprintf(&b, "policy %s %d\n", p.SHA256, p.Size)
	}
	return b.String()
}

func parsePolicies(lines []string) ([]PolicyFile, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	var n int
	if _, err := fmt.Sscanf(lines[0], "policies %d", &n); err != nil || n != len(lines)-1 || n > MaxPolicies {
		return nil, fmt.Errorf("%d lines after the blocks, which begin with %.40q", len(lines), lines[0])
	}
	var list []PolicyFile
	for _, line := range lines[1:] {
		var p PolicyFile
		if _, err := fmt.Sscanf(line, "policy %64s %d", &p.SHA256, &p.Size); err != nil || !isSHA256(p.SHA256) || p.Size < 1 {
			return nil, fmt.Errorf("policy %.80q", line)
		}
		list = append(list, p)
	}
	return list, nil
}

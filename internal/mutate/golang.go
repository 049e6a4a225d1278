package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"strconv"
	"strings"
)

// operators are what each operator becomes, in Go and in Lua.
var operators = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "~=": "==",
	"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
	"+=": "-=", "-=": "+=", "*=": "/=", "|=": "&=", "&=": "|=", "++": "--", "--": "++", "and": "or", "or": "and",
	"min": "max", "max": "min", "true": "false", "false": "true",
}

// goMutants finds the changes of a Go file.
func goMutants(file string, source []byte) []mutant {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	if err != nil {
		log.Fatal(err)
	}
	g := &goList{list: list{file: file, source: source}, files: files}
	ast.Inspect(tree, g.visit)
	return g.mutants
}

type goList struct {
	list
	files   *token.FileSet
	results []*ast.FieldList // of the functions around
	nodes   []ast.Node
}

func (g *goList) visit(node ast.Node) bool {
	if node == nil { // the end of the last node
		switch g.nodes[len(g.nodes)-1].(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			g.results = g.results[:len(g.results)-1]
		}
		g.nodes = g.nodes[:len(g.nodes)-1]
		return true
	}
	switch n := node.(type) {
	case *ast.ImportSpec, *ast.StructType, *ast.ArrayType: // the length of an array is no behaviour
		return false
	case *ast.FuncDecl:
		g.results = append(g.results, n.Type.Results)
	case *ast.FuncLit:
		g.results = append(g.results, n.Type.Results)
	case *ast.BinaryExpr:
		g.operator(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		g.operator(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		g.operator(n.TokPos, n.Tok)
	case *ast.Ident:
		if operators[n.Name] != "" {
			g.replace(g.at(n.Pos()), g.at(n.End()), operators[n.Name])
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			g.number(n)
		}
	case *ast.IfStmt:
		g.negate(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				for _, condition := range clause.(*ast.CaseClause).List {
					g.negate(condition)
				}
			}
		}
	case *ast.ReturnStmt:
		g.returnZero(n)
	}
	switch n := node.(type) {
	case *ast.BlockStmt:
		g.leaveOut(n.List)
	case *ast.CaseClause:
		g.leaveOut(n.Body)
	}
	g.nodes = append(g.nodes, node)
	return true
}

func (g *goList) at(pos token.Pos) int { return g.files.Position(pos).Offset }

func (g *goList) text(n ast.Node) string { return string(g.source[g.at(n.Pos()):g.at(n.End())]) }

func (g *goList) operator(pos token.Pos, op token.Token) {
	if operators[op.String()] != "" {
		g.replace(g.at(pos), g.at(pos)+len(op.String()), operators[op.String()])
	}
}

// number adds one to a constant.
func (g *goList) number(n *ast.BasicLit) {
	if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
		g.replace(g.at(n.Pos()), g.at(n.End()), strconv.FormatInt(value+1, 10))
	}
}

// negate negates a condition, unless another operator does.
func (g *goList) negate(condition ast.Expr) {
	if b, ok := condition.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	g.add(g.at(condition.Pos()), g.at(condition.End()), "!("+g.text(condition)+")", "condition negated: "+g.text(condition))
}

// leaveOut leaves out statements that declare nothing.
func (g *goList) leaveOut(statements []ast.Stmt) {
	for _, s := range statements {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.IfStmt:
			if s.Else != nil {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		default:
			continue
		}
		first, _, _ := strings.Cut(g.text(s), "\n")
		g.add(g.at(s.Pos()), g.at(s.End()), "", "left out: "+first)
	}
}

// returnZero returns the zero values, unless these are what is returned.
func (g *goList) returnZero(n *ast.ReturnStmt) {
	var zeros []string
	if results := g.results[len(g.results)-1]; results != nil {
		for _, field := range results.List {
			for range max(1, len(field.Names)) {
				zeros = append(zeros, "*new("+g.text(field.Type)+")")
			}
		}
	}
	zero := true
	for _, result := range n.Results {
		text := g.text(result)
		zero = zero && (text == "0" || text == "nil" || text == "false" || text == `""` || strings.HasSuffix(text, "{}"))
	}
	if !zero {
		g.add(g.at(n.Pos()), g.at(n.End()), "return "+strings.Join(zeros, ", "), "zero returned")
	}
}

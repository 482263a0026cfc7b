# Two commands matter: `make lab` and `make test`. `make help` lists the rest.

PY ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

# Every Jupyter, IPython and matplotlib folder lies inside .venv: only pip's cache of downloads is
# written outside, and nobody's own settings come in.
RUN := $(PYTHON) -m tools.lab.isolated

.DEFAULT_GOAL := help
.PHONY: help setup lab fresh test site slides student grade poll colab notebooks adopt lint bench mutants

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12
	@echo
	@echo "make lab PORT=8890                   another port"
	@echo "make lab LAB_FLAGS=--no-browser      further options for JupyterLab"
	@echo "make setup PY=python3.12             another Python"
	@echo "make setup TORCH_INDEX=ADDRESS       a further package index, such as PyTorch's for CPUs"

setup: $(READY)  ## make .venv and install the versions of environment.yml

# A moved or copied folder installs again: its .venv still points to the old place.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

$(READY): environment.yml pyproject.toml
	@command -v $(PY) >/dev/null || { echo "attnlab needs Python 3.11 or newer, and there is no $(PY) here."; exit 1; }
	@$(PY) tools/lab/check_python.py
	@test -x $(VENV)/bin/pip || $(PY) -m venv $(VENV)
	@sed -n '/^ *- pip:/,$$ s/^ \{6,\}- //p' environment.yml > $(VENV)/requirements.txt
	@echo "Installing the versions of environment.yml into $(VENV): once, a minute or more."
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	@echo "$(CURDIR)" > $@

lab: $(READY)  ## open JupyterLab on your own copies of the lessons, in my_notebooks/
	@$(PYTHON) -m tools.lab open $(if $(PORT),--port $(PORT)) -- $(LAB_FLAGS)

fresh: $(READY)  ## NB=03: set your copy of lesson 03 aside and take a new one
	@$(PYTHON) -m tools.lab fresh "$(NB)"

test: $(READY)  ## run every check; it changes nothing
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) tools.build.prose --check
	$(RUN) tools.check.lint
	OMP_NUM_THREADS=1 $(RUN) pytest attnlab tests notebooks/*.ipynb --doctest-modules \
		-p tools.check.strict_nbval --nbval-current-env -n 2 --dist loadfile --no-loadscope-reorder -q

site: $(READY)  ## export all lessons as web pages into site/; FOR=teachers, SOLUTIONS=no, URL=, REPO=
	@$(RUN) tools.publish.site --for $(or $(FOR),all) --solutions $(or $(SOLUTIONS),yes) --url "$(URL)" $(if $(REPO),--repository "$(REPO)")

slides: $(READY)  ## write slides of all lessons into slides/, with notes for teachers; NB=03: lesson 03
	@$(RUN) tools.publish.slides $(NB)

student: $(READY)  ## write copies without solutions and teacher notes into student/
	@$(RUN) tools.publish.student

grade: $(READY)  ## DIR=submissions: check what a class handed in; ROSTER=roster.csv, DUE=2026-11-29T12:00
	@$(RUN) tools.grade "$(or $(DIR),submissions)" $(if $(ROSTER),--roster "$(ROSTER)") $(if $(DUE),--due "$(DUE)")

poll: $(READY)  ## NB=03: ask its predictions in class, and on phones with ADDRESS=that of this computer
	@$(RUN) tools.poll "$(NB)" $(if $(ADDRESS),--address "$(ADDRESS)") $(if $(PORT),--port $(PORT))

colab: $(READY)  ## write copies for Google Colab, and the wheel, into colab/; URL=address of a folder
	@$(RUN) tools.publish.colab "$(URL)"

notebooks: $(READY)  ## build the lessons and figures/ from their sources; NB=04: lesson 04
	@$(RUN) tools.build.notebooks $(NB)

adopt: $(READY)  ## NB=my_notebooks/03_...ipynb: write an edited notebook back into its source
	$(RUN) tools.build.adopt "$(NB)"

lint: $(READY)  ## put code and prose into the house format, and report what is left to do
	$(RUN) tools.build.prose
	$(RUN) ruff check --fix --exit-zero --quiet
	$(RUN) ruff format
	$(RUN) ruff check
	$(RUN) tools.check.lint

bench: $(READY)  ## measure time and memory against torch; BENCH_FLAGS=--quick: in a minute or two
	@$(RUN) tools.bench $(BENCH_FLAGS)

mutants: $(READY)  ## change the kernels in small ways, list what no test sees; MUTANTS="attnlab.masks*"
	@OMP_NUM_THREADS=1 $(RUN) mutmut run --max-children 2 $(MUTANTS)
	@$(RUN) mutmut results

"""MkDocs hooks: pages for the Markdown files at the top of the repository, and links between them and docs/."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP = Path(__file__).parents[1]
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}  # file of the repository -> page
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages for files at the top of the repository."""
    for source, uri in PAGES.items():
        if (TOP / source).exists() and files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=(TOP / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite relative links so that they lead to pages of the site; links to other files of the repository become plain text."""
    parts = CODE.split(markdown)  # code at odd positions
    return "".join(
        part if number % 2 else LINK.sub(lambda link: rewrite(link, page.file.src_uri, files), part) for number, part in enumerate(parts)
    )


def rewrite(link: re.Match[str], uri: str, files: Files) -> str:
    image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    if not target or "://" in target:
        return link[0]
    source = next((file for file, page in PAGES.items() if page == uri), f"docs/{uri}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    target_page = PAGES.get(path, path.removeprefix("docs/"))
    if files.get_file_from_path(target_page) is None and not path.startswith("docs/"):
        return text if (TOP / path).exists() else link[0]
    return f"{image}[{text}]({posixpath.relpath(target_page, posixpath.dirname(uri) or '.')}{anchor})"
